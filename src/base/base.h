/* SPDX-License-Identifier: MIT */
/*
 * The small words that every file uses: attributes, container_of, bit helpers and the assertion
 * ladder. No concept of memory management stands here.
 *
 *   VM_BUG_ON(c)    cheap (O(1), no lock) and always compiled in: state is corrupt, going on would
 *                   lose data. Aborts.
 *   VM_DEBUG_ON(c)  the same in debug builds (UMM_DEBUG >= 1), nothing in release.
 */
#ifndef UMM_BASE_BASE_H
#define UMM_BASE_BASE_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef UMM_DEBUG
#define UMM_DEBUG 0
#endif

#define __must_check __attribute__((warn_unused_result))
#define __cold __attribute__((cold, noinline))
#define __printf(f, a) __attribute__((format(printf, f, a)))
#define __aligned(n) __attribute__((aligned(n)))
#define CACHE_LINE 64

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#define PAGE_SHIFT 12
#define PAGE_SIZE (1ul << PAGE_SHIFT)

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static inline uint64_t round_up_u64(uint64_t v, uint64_t align)
{
	return (v + align - 1) / align * align;
}

/* The largest number whose square is at most v. */
static inline uint64_t isqrt(uint64_t v)
{
	uint64_t root = 0;

	for (uint64_t bit = UINT64_C(1) << 31; bit; bit >>= 1)
		if ((root | bit) * (root | bit) <= v)
			root |= bit;
	return root;
}

/* Print one line to standard error and abort: the only output of the library, and only when it dies. */
void vm_bug(const char *file, int line, const char *what) __attribute__((noreturn, cold));

#define VM_BUG_ON(cond)                                    \
	do {                                               \
		if (unlikely(cond))                        \
			vm_bug(__FILE__, __LINE__, #cond); \
	} while (0)

#if UMM_DEBUG >= 1
#define VM_DEBUG_ON(cond) VM_BUG_ON(cond)
#else
#define VM_DEBUG_ON(cond) ((void)sizeof(cond))
#endif

#endif
