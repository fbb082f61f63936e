/* SPDX-License-Identifier: MIT */
/* Owns the engine's memory in a world; see mem.h. Runs on one host thread: no locks. */
#define _GNU_SOURCE
#include "mem.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "base/base.h"
#include "sched.h"

#define MEM_BASE ((char *)0x380000000000)
#define FRAMES_BASE ((char *)0x3a0000000000)
#define FRAMES_BYTES (1ul << 40) /* of addresses, not of memory */

/* Blocks of 32, 48, 64, 96, 128 .. bytes. */
#define MIN_SHIFT 5
#define NR_CLASSES 56
/* Blocks of a class that a CPU keeps; what is more goes to a list of all. */
#define CPU_KEEPS 64

struct header {
	uint32_t class;
	uint32_t offset; /* from the block's start */
};
#define HEADER_BYTES 16

struct free_list {
	void *head;
	uint32_t nr;
};

struct range {
	size_t bytes;
	char *base;
};
#define NR_RANGES 256

static struct {
	char *base;
	size_t used;
	struct free_list list[SIM_CPUS_MAX + 1][NR_CLASSES]; /* the last: everybody's */
	struct range free_range[NR_RANGES];
	unsigned nr_free_ranges;
	size_t frames_used;
} mem;

static void *map_at(void *where, size_t bytes)
{
	const int prot = PROT_READ | PROT_WRITE;
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	void *p = mmap(where, bytes, prot, flags | MAP_FIXED_NOREPLACE, -1, 0);

	if (p == MAP_FAILED)
		p = mmap(NULL, bytes, prot, flags, -1, 0);
	return p == MAP_FAILED ? NULL : p;
}

int mem_init(void)
{
	VM_BUG_ON(mem.base);
	memset(&mem, 0, sizeof(mem));
	mem.base = map_at(MEM_BASE, SIM_MEM_BYTES);
	return mem.base ? 0 : -ENOMEM;
}

void mem_fini(void)
{
	if (mem.base && munmap(mem.base, SIM_MEM_BYTES))
		VM_BUG_ON(true);
	mem.base = NULL;
}

char *sim_mem_base(void)
{
	return mem.base;
}

static void *bump(size_t bytes, size_t align)
{
	size_t at = round_up_u64(mem.used, align);

	if (!mem.base || at > SIM_MEM_BYTES || bytes > SIM_MEM_BYTES - at)
		return NULL;
	mem.used = at + bytes;
	return mem.base + at;
}

/* ---- blocks ---- */

static size_t class_bytes(unsigned class)
{
	size_t half = (1ul << MIN_SHIFT) << (class / 2);

	return class % 2 ? half + half / 2 : half;
}

static unsigned class_of(size_t bytes)
{
	unsigned class = 0;

	while (class < NR_CLASSES && class_bytes(class) < bytes)
		class ++;
	return class;
}

static char *block_pop(unsigned cpu, unsigned class)
{
	struct free_list *list = &mem.list[cpu][class];
	void *block;

	if (!list->head)
		list = &mem.list[SIM_CPUS_MAX][class];
	block = list->head;
	if (block) {
		memcpy(&list->head, block, sizeof(list->head));
		list->nr--;
	}
	return block;
}

void *mem_alloc(unsigned cpu, size_t align, size_t bytes)
{
	size_t need = bytes + HEADER_BYTES + (align > HEADER_BYTES ? align : 0);
	unsigned class = need < bytes ? NR_CLASSES : class_of(need);
	struct header *header;
	char *block, *p;

	if (class >= NR_CLASSES || class_bytes(class) > SIM_MEM_BYTES)
		return NULL;
	block = block_pop(cpu, class);
	if (block)
		memset(block, 0, need);
	else
		block = bump(class_bytes(class), class_bytes(class) < 64 ? 16 : 64);
	if (!block)
		return NULL;
	p = block + HEADER_BYTES;
	if (align > HEADER_BYTES)
		p = (char *)round_up_u64((uintptr_t)p, align);
	header = (struct header *)(p - HEADER_BYTES);
	header->class = class;
	header->offset = (uint32_t)(p - block);
	return p;
}

void mem_free(unsigned cpu, void *p)
{
	const struct header *header;
	struct free_list *list;
	char *block;
	unsigned class;

	if (!p)
		return;
	header = (const struct header *)((char *)p - HEADER_BYTES);
	class = header->class;
	block = (char *)p - header->offset;
	VM_BUG_ON(class >= NR_CLASSES || header->offset < HEADER_BYTES);
	list = &mem.list[cpu][class];
	if (list->nr >= CPU_KEEPS)
		list = &mem.list[SIM_CPUS_MAX][class];
	/* A second free of the same block is found by its header, which is gone now. */
	memset((char *)p - HEADER_BYTES, 0, HEADER_BYTES);
	memcpy(block, &list->head, sizeof(list->head));
	list->head = block;
	list->nr++;
}

/* ---- ranges ---- */

void *mem_reserve(size_t bytes)
{
	size_t len = round_up_u64(bytes, PAGE_SIZE);

	if (len < bytes || len > SIM_MEM_BYTES)
		return NULL;
	for (unsigned i = 0; i < mem.nr_free_ranges; i++) {
		struct range *r = &mem.free_range[i];
		char *base = r->base;

		if (r->bytes != len)
			continue;
		*r = mem.free_range[--mem.nr_free_ranges];
		return base;
	}
	return bump(len, PAGE_SIZE);
}

/* Only a range of the same size gets it again: worlds are short, and their instances alike. */
void mem_unreserve(void *p, size_t bytes)
{
	size_t len = round_up_u64(bytes, PAGE_SIZE);

	if (!p)
		return;
	if (madvise(p, len, MADV_DONTNEED))
		memset(p, 0, len);
	if (mem.nr_free_ranges < NR_RANGES)
		mem.free_range[mem.nr_free_ranges++] = (struct range){ len, p };
}

/* ---- frames ---- */

void *mem_frames_map(size_t bytes, size_t align)
{
	size_t len = round_up_u64(bytes, PAGE_SIZE);
	size_t at = round_up_u64(mem.frames_used, align > PAGE_SIZE ? align : PAGE_SIZE);
	void *p;

	if (len < bytes || at > FRAMES_BYTES || len > FRAMES_BYTES - at)
		return NULL;
	p = mmap(FRAMES_BASE + at, len, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	mem.frames_used = at + len;
	return p;
}

void mem_frames_unmap(void *p, size_t bytes)
{
	size_t len = round_up_u64(bytes, PAGE_SIZE);

	if (!p)
		return;
	if (munmap(p, len))
		VM_BUG_ON(true);
	if ((char *)p + len == FRAMES_BASE + mem.frames_used)
		mem.frames_used -= len;
}

bool mem_is_frames(const void *p)
{
	return (uintptr_t)p - (uintptr_t)FRAMES_BASE < FRAMES_BYTES;
}
