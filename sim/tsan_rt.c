/* SPDX-License-Identifier: MIT */
/*
 * What -fsanitize=thread calls: the engine's sources are compiled with it a second time, but linked to
 * this file instead of the sanitizer. So every atomic access is a point of the scheduler, with its
 * memory order at hand, every plain access is known to the cost model, and nothing in the sources has
 * to be marked. gcc and clang emit different sets of these; both are here.
 *
 * All atomics go through atomic_point(), all plain accesses through plain_access(): a race detector, a
 * weak memory model and an explorer of schedules attach there.
 */
#include "cost.h"
#include "instrument.h"
#include "mem.h"
#include "os_sim.h"

#undef memcpy
#undef memmove
#undef memset

void sim_lru_list_op(void);

enum access { LOAD, STORE, RMW };

/* Before an atomic access: pay for its line, then see whose turn it is. Accesses to what is not the
 * engine's shared memory (stacks, statics) are nobody else's affair. */
static inline void atomic_point(const volatile void *p, enum access access, int order)
{
	size_t line = sim_line_of(p);

	(void)order;
	if (unlikely(line >= sim_nr_lines))
		return;
	sim_me->clk_ps += sim_line_access(sim_me, line, access != LOAD);
	if (access == RMW)
		sim_me->clk_ps += sim_ps.rmw;
	sim_point();
}

static inline void plain_access(const volatile void *p, bool write)
{
	size_t line = sim_line_of(p);

	if (line >= sim_nr_lines)
		return;
	sim_counts.plain++;
	sim_me->clk_ps += sim_line_access(sim_me, line, write);
}

/* ---- module and function hooks ---- */

void __tsan_init(void);
void __tsan_func_entry(void *pc);
void __tsan_func_exit(void);

void __tsan_init(void)
{
}

void __tsan_func_entry(void *pc)
{
	(void)pc;
}

void __tsan_func_exit(void)
{
}

/* ---- plain accesses ---- */

/* clang-format off */
#define PLAIN(name, write)                          \
	void __tsan_##name(const volatile void *p); \
	void __tsan_##name(const volatile void *p)  \
	{                                           \
		plain_access(p, write);             \
	}
#define PLAIN_SIZE(bytes)                       \
	PLAIN(read##bytes, false)               \
	PLAIN(write##bytes, true)               \
	PLAIN(unaligned_read##bytes, false)     \
	PLAIN(unaligned_write##bytes, true)     \
	PLAIN(volatile_read##bytes, false)      \
	PLAIN(volatile_write##bytes, true)

PLAIN_SIZE(1)
PLAIN_SIZE(2)
PLAIN_SIZE(4)
PLAIN_SIZE(8)
PLAIN_SIZE(16)

#define RANGE(name, write)                                         \
	void __tsan_##name(const volatile void *p, size_t bytes);  \
	void __tsan_##name(const volatile void *p, size_t bytes)   \
	{                                                          \
		if (sim_line_of(p) < sim_nr_lines)                 \
			sim_touch(p, bytes, write);                \
	}

RANGE(read_range, false)
RANGE(write_range, true)

/* ---- atomics ---- */

#define ATOMIC_OP(bits, type, name, expression)                                           \
	type __tsan_atomic##bits##_##name(volatile type *p, type v, int order);           \
	type __tsan_atomic##bits##_##name(volatile type *p, type v, int order)            \
	{                                                                                 \
		type old;                                                                 \
		atomic_point(p, RMW, order);                                              \
		old = *p;                                                                 \
		*p = (type)(expression);                                                  \
		return old;                                                               \
	}

#define ATOMIC_CAS(bits, type, name)                                                      \
	int __tsan_atomic##bits##_##name(volatile type *p, type *expected, type v,        \
					 int order, int order_failed);                    \
	int __tsan_atomic##bits##_##name(volatile type *p, type *expected, type v,        \
					 int order, int order_failed)                     \
	{                                                                                 \
		type old;                                                                 \
		(void)order_failed;                                                       \
		atomic_point(p, RMW, order);                                              \
		old = *p;                                                                 \
		if (old == *expected) {                                                   \
			*p = v;                                                           \
			return 1;                                                         \
		}                                                                         \
		*expected = old;                                                          \
		return 0;                                                                 \
	}

#define ATOMIC(bits, type)                                                                \
	type __tsan_atomic##bits##_load(const volatile type *p, int order);               \
	type __tsan_atomic##bits##_load(const volatile type *p, int order)                \
	{                                                                                 \
		atomic_point(p, LOAD, order);                                             \
		return *p;                                                                \
	}                                                                                 \
	void __tsan_atomic##bits##_store(volatile type *p, type v, int order);            \
	void __tsan_atomic##bits##_store(volatile type *p, type v, int order)             \
	{                                                                                 \
		atomic_point(p, STORE, order);                                            \
		*p = v;                                                                   \
	}                                                                                 \
	ATOMIC_OP(bits, type, exchange, v)                                                \
	ATOMIC_OP(bits, type, fetch_add, old + v)                                         \
	ATOMIC_OP(bits, type, fetch_sub, old - v)                                         \
	ATOMIC_OP(bits, type, fetch_and, old & v)                                         \
	ATOMIC_OP(bits, type, fetch_or, old | v)                                          \
	ATOMIC_OP(bits, type, fetch_xor, old ^ v)                                         \
	ATOMIC_OP(bits, type, fetch_nand, ~(old & v))                                     \
	ATOMIC_CAS(bits, type, compare_exchange_strong)                                   \
	ATOMIC_CAS(bits, type, compare_exchange_weak)                                     \
	type __tsan_atomic##bits##_compare_exchange_val(volatile type *p, type expected,  \
							type v, int order, int failed);   \
	type __tsan_atomic##bits##_compare_exchange_val(volatile type *p, type expected,  \
							type v, int order, int failed)    \
	{                                                                                 \
		(void)__tsan_atomic##bits##_compare_exchange_strong(p, &expected, v,      \
								    order, failed);       \
		return expected;                                                          \
	}

ATOMIC(8, uint8_t)
ATOMIC(16, uint16_t)
ATOMIC(32, uint32_t)
ATOMIC(64, uint64_t)
/* clang-format on */

void __tsan_atomic_thread_fence(int order);
void __tsan_atomic_signal_fence(int order);

void __tsan_atomic_thread_fence(int order)
{
	(void)order;
	if (!sim_me)
		return;
	sim_me->clk_ps += sim_ps.rmw;
	sim_point();
}

void __tsan_atomic_signal_fence(int order)
{
	(void)order;
}

/* ---- what instrument.h catches by name ---- */

/* From so many bytes on, the table's figure for copying counts, not the lines. */
#define BULK_BYTES 1024u

static void bulk(size_t bytes)
{
	sim_work(sim_ps.copy_page * bytes / PAGE_SIZE);
	sim_node_traffic(sim_me->node, bytes);
}

/* Charge for a copy. True: it need not be made. */
static bool copied(const void *to, const void *from, size_t bytes)
{
	if (!sim_me || !bytes)
		return false;
	if (bytes >= BULK_BYTES) {
		bulk(bytes);
		/* Nobody will look at what is in a page. */
		return !os_sim_keeps_contents() && (mem_is_frames(from) || mem_is_frames(to));
	}
	if (sim_line_of(from) < sim_nr_lines)
		sim_touch(from, bytes, false);
	if (sim_line_of(to) < sim_nr_lines)
		sim_touch(to, bytes, true);
	return false;
}

void *sim_memcpy(void *to, const void *from, size_t bytes)
{
	return copied(to, from, bytes) ? to : memcpy(to, from, bytes);
}

void *sim_memmove(void *to, const void *from, size_t bytes)
{
	return copied(to, from, bytes) ? to : memmove(to, from, bytes);
}

void *sim_memset(void *to, int c, size_t bytes)
{
	if (sim_me && bytes >= BULK_BYTES) {
		bulk(bytes);
		if (!os_sim_keeps_contents() && mem_is_frames(to))
			return to;
	} else if (sim_me && bytes && sim_line_of(to) < sim_nr_lines) {
		sim_touch(to, bytes, true);
	}
	return memset(to, c, bytes);
}

void sim_lru_list_op(void)
{
	sim_work(sim_ps.list_op);
}

/* clang from 15 on calls these where earlier compilers call the C library's. */
void *__tsan_memcpy(void *to, const void *from, size_t bytes);
void *__tsan_memmove(void *to, const void *from, size_t bytes);
void *__tsan_memset(void *to, int c, size_t bytes);

void *__tsan_memcpy(void *to, const void *from, size_t bytes)
{
	return sim_memcpy(to, from, bytes);
}

void *__tsan_memmove(void *to, const void *from, size_t bytes)
{
	return sim_memmove(to, from, bytes);
}

void *__tsan_memset(void *to, int c, size_t bytes)
{
	return sim_memset(to, c, bytes);
}
