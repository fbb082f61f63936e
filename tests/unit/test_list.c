/* SPDX-License-Identifier: MIT */
/* base/list.h: order, moving, splicing, and that an unlinked entry cannot be used by mistake. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/list.h"

struct item {
	int value;
	struct list_head link;
};

static struct item items[6];

/* A list of items 0..n-1 in order. */
static void fill(struct list_head *h, int first, int n)
{
	list_init(h);
	for (int i = first; i < first + n; i++) {
		items[i].value = i;
		list_add_tail(&items[i].link, h);
	}
}

/* The list's values as decimal digits: 0,1,2 -> 1012 (a leading 1 keeps the zeros). */
static int digits(const struct list_head *h)
{
	const struct item *it;
	int forward = 1, backward = 0, scale = 1;

	list_for_each_entry (it, h, struct item, link)
		forward = forward * 10 + it->value;
	for (const struct list_head *p = h->prev; p != h; p = p->prev) {
		backward += scale * list_entry(p, struct item, link)->value;
		scale *= 10;
	}
	assert_int_equal(forward, scale + backward);
	return forward;
}

static void test_add_and_order(void **state)
{
	LIST_HEAD(h);

	(void)state;
	assert_true(list_empty(&h));
	assert_int_equal(digits(&h), 1);
	fill(&h, 0, 3);
	assert_false(list_empty(&h));
	assert_int_equal(digits(&h), 1012);
	items[3].value = 3;
	list_add(&items[3].link, &h);
	assert_int_equal(digits(&h), 13012);
	assert_int_equal(list_first_entry(&h, struct item, link)->value, 3);
	assert_int_equal(list_last_entry(&h, struct item, link)->value, 2);
}

static void test_del_poisons(void **state)
{
	LIST_HEAD(h);

	(void)state;
	fill(&h, 0, 3);
	list_del(&items[1].link);
	assert_int_equal(digits(&h), 102);
	assert_null(items[1].link.next);
	assert_null(items[1].link.prev);
	list_del_init(&items[0].link);
	assert_true(list_empty(&items[0].link));
	list_del(&items[2].link);
	assert_true(list_empty(&h));
}

static void test_move(void **state)
{
	LIST_HEAD(h);
	LIST_HEAD(other);

	(void)state;
	fill(&h, 0, 3);
	list_move(&items[2].link, &h);
	assert_int_equal(digits(&h), 1201);
	list_move_tail(&items[2].link, &h);
	assert_int_equal(digits(&h), 1012);
	list_move(&items[1].link, &other);
	assert_int_equal(digits(&h), 102);
	assert_int_equal(digits(&other), 11);
}

static void test_splice(void **state)
{
	struct list_head from, to;

	(void)state;
	fill(&to, 0, 2);
	fill(&from, 2, 2);
	list_splice_init(&from, &to);
	assert_true(list_empty(&from));
	assert_int_equal(digits(&to), 12301);

	fill(&to, 0, 2);
	fill(&from, 2, 2);
	list_splice_tail_init(&from, &to);
	assert_true(list_empty(&from));
	assert_int_equal(digits(&to), 10123);

	list_splice_init(&from, &to);
	list_splice_tail_init(&from, &to);
	assert_int_equal(digits(&to), 10123);
	list_splice_init(&to, &from);
	assert_true(list_empty(&to));
	assert_int_equal(digits(&from), 10123);
	list_splice_tail_init(&from, &to);
	assert_int_equal(digits(&to), 10123);
}

static void test_walk_and_delete(void **state)
{
	LIST_HEAD(h);
	struct item *it, *tmp;

	(void)state;
	fill(&h, 0, 6);
	list_for_each_entry_safe (it, tmp, &h, struct item, link)
		if (it->value % 2)
			list_del(&it->link);
	assert_int_equal(digits(&h), 1024);
	list_for_each_entry_safe (it, tmp, &h, struct item, link)
		list_del(&it->link);
	assert_true(list_empty(&h));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_add_and_order),
		cmocka_unit_test(test_del_poisons),
		cmocka_unit_test(test_move),
		cmocka_unit_test(test_splice),
		cmocka_unit_test(test_walk_and_delete),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
