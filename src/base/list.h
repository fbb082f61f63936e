/* SPDX-License-Identifier: MIT */
/* Circular doubly linked intrusive lists. Nothing here is atomic: the caller holds the list's lock. */
#ifndef UMM_BASE_LIST_H
#define UMM_BASE_LIST_H

#include "base/base.h"

struct list_head {
	struct list_head *next, *prev;
};

#define LIST_HEAD_INIT(name)     \
	{                        \
		&(name), &(name) \
	}
#define LIST_HEAD(name) struct list_head name = LIST_HEAD_INIT(name)

static inline void list_init(struct list_head *h)
{
	h->next = h;
	h->prev = h;
}

static inline bool list_empty(const struct list_head *h)
{
	return h->next == h;
}

static inline void list_insert_between(struct list_head *n, struct list_head *prev,
				       struct list_head *next)
{
	next->prev = n;
	n->next = next;
	n->prev = prev;
	prev->next = n;
}

/* Insert at the head: the hot end of an LRU list. */
static inline void list_add(struct list_head *n, struct list_head *h)
{
	list_insert_between(n, h, h->next);
}

/* Insert at the tail: the end that reclaim eats. */
static inline void list_add_tail(struct list_head *n, struct list_head *h)
{
	list_insert_between(n, h->prev, h);
}

/* Unlink; the links are set to NULL so that a second unlink, or a walk through it, fails at once. */
static inline void list_del(struct list_head *n)
{
	VM_DEBUG_ON(n->next->prev != n || n->prev->next != n);
	n->next->prev = n->prev;
	n->prev->next = n->next;
	n->next = NULL;
	n->prev = NULL;
}

static inline void list_del_init(struct list_head *n)
{
	list_del(n);
	list_init(n);
}

static inline void list_move(struct list_head *n, struct list_head *h)
{
	list_del(n);
	list_add(n, h);
}

static inline void list_move_tail(struct list_head *n, struct list_head *h)
{
	list_del(n);
	list_add_tail(n, h);
}

/* Move all of `from` to the head (or tail) of `to`; `from` is empty afterwards. */
static inline void list_splice_init(struct list_head *from, struct list_head *to)
{
	if (list_empty(from))
		return;
	from->next->prev = to;
	from->prev->next = to->next;
	to->next->prev = from->prev;
	to->next = from->next;
	list_init(from);
}

static inline void list_splice_tail_init(struct list_head *from, struct list_head *to)
{
	if (list_empty(from))
		return;
	from->next->prev = to->prev;
	from->prev->next = to;
	to->prev->next = from->next;
	to->prev = from->prev;
	list_init(from);
}

#define list_entry(ptr, type, member) container_of(ptr, type, member)
#define list_first_entry(h, type, member) list_entry((h)->next, type, member)
#define list_last_entry(h, type, member) list_entry((h)->prev, type, member)
/* Is `pos` what stands for the list's head at the end of a walk? It is no real entry, and may not even
 * be aligned like one: its members must not be named. */
#define list_entry_is_head(pos, h, type, member) \
	((const struct list_head *)((const char *)(pos) + offsetof(type, member)) == (h))

#define list_for_each_entry(pos, h, type, member)                                                \
	for (pos = list_first_entry(h, type, member); !list_entry_is_head(pos, h, type, member); \
	     pos = list_entry(pos->member.next, type, member))

/* `tmp` is looked up before the body, which may unlink or free `pos`. */
#define list_for_each_entry_safe(pos, tmp, h, type, member)           \
	for (pos = list_first_entry(h, type, member);                 \
	     !list_entry_is_head(pos, h, type, member) &&             \
	     ((tmp = list_entry(pos->member.next, type, member)), 1); \
	     pos = tmp)

#endif
