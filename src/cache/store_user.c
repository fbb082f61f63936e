/* SPDX-License-Identifier: MIT */
/*
 * The caller's own store. Its callbacks are foreign code: what they return is looked at before anything
 * here relies on it.
 */
#include "base/fault.h"
#include "cache/mapping.h"

/* The largest number that the system uses for an error. */
#define ERRNO_MAX 4095

struct store_user {
	struct store store;
	struct umm_store_ops ops; /* (C) our copy: the caller's may be gone */
	void *ctx;                /* (C) */
};

static struct store_user *store_user_of(struct store *store)
{
	return container_of(store, struct store_user, store);
}

static ssize_t store_user_read(struct store *store, const struct iovec *iov, int iovcnt,
			       uint64_t offset)
{
	struct store_user *su = store_user_of(store);
	size_t asked = 0;
	ssize_t r;

	VM_DEBUG_ON(iovcnt <= 0 || offset % PAGE_SIZE);
	lock_assert_may_sleep(&store->mm->threads);
	if (fault_point(FAULT_IO))
		return -EIO;
	for (int i = 0; i < iovcnt; i++)
		asked += iov[i].iov_len;
	r = su->ops.read(su->ctx, iov, iovcnt, offset);
	if (r < -ERRNO_MAX || (r > 0 && (size_t)r > asked)) {
		mm_log(store->mm, UMM_LOG_ERROR, "a store's read of %zu bytes at %llu returned %zd",
		       asked, (unsigned long long)offset, r);
		return -EIO;
	}
	return r;
}

/* The callback is synchronous: one after the other. */
static void store_user_read_batch(struct store *store, struct store_read *reads, unsigned nr)
{
	for (unsigned i = 0; i < nr; i++)
		reads[i].result =
			store_user_read(store, reads[i].iov, reads[i].iovcnt, reads[i].offset);
}

static void store_user_close(struct store *store)
{
	struct store_user *su = store_user_of(store);

	if (su->ops.close)
		su->ops.close(su->ctx);
	os_free(su);
}

static void store_user_discard(struct store *store)
{
	os_free(store_user_of(store));
}

static enum umm_io_mode store_user_io_mode(struct store *store)
{
	(void)store;
	return UMM_IO_STORE;
}

static const struct store_ops store_user_ops = {
	.read = store_user_read,
	.read_batch = store_user_read_batch,
	.close = store_user_close,
	.discard = store_user_discard,
	.io_mode = store_user_io_mode,
};

int store_user_open(struct mm *mm, const struct umm_store_ops *ops, void *ctx, uint64_t bytes,
		    struct store **ret)
{
	struct store_user *su;

	if (!ops || ops->size != sizeof(*ops) || !ops->read)
		return -EINVAL;
	su = os_alloc(sizeof(*su));
	if (!su)
		return -ENOMEM;
	su->store.ops = &store_user_ops;
	su->store.mm = mm;
	su->store.bytes = bytes;
	su->ops = *ops;
	su->ctx = ctx;
	*ret = &su->store;
	return 0;
}
