/* SPDX-License-Identifier: MIT */
/*
 * Single flight: one load in flight for each missing page, however many want it.
 *
 * Before anything is charged or allocated the loader puts a ticket (struct fill) into the index at each
 * page that it is going to read. Others who find the ticket wait for it. When the data is there the
 * tickets are replaced by folios that are up to date: nobody ever sees one that is not. When it fails
 * the tickets are erased, and each waiter gets the error; the next read tries again.
 */
#ifndef UMM_CACHE_FILL_H
#define UMM_CACHE_FILL_H

#include "cache/object.h"

/* A store's own error on its way through the cache, where it must not be taken for one of ours; the last
 * function of the floor passes it on as it was. */
#define STORE_ERROR(err) ((err)-4096)
static inline int store_error_pass(int err)
{
	return err <= STORE_ERROR(-1) ? err + 4096 : err;
}

#define FILL_MAX_PAGES 256 /* in one load */

struct fill {
	_Atomic uint32_t done; /* futex word: 0 in flight, 1 over */
	_Atomic uint32_t refs; /* the loader's and the waiters' */
	int error;             /* the store's, of the page at `index`; valid once done */
	unsigned nr;           /* pages claimed: [index, index + nr) */
	uint64_t index;
	/* The loader's alone: frames and buffers of the claimed pages. */
	unsigned nr_folios;
	struct iovec *iov;
	struct folio *folio[];
};

enum fill_claim {
	FILL_OURS,    /* the caller must load: fill_run */
	FILL_THEIRS,  /* somebody does: fill_wait */
	FILL_PRESENT, /* a folio stands there by now */
};

/* Claim the page at index, and up to nr - 1 missing ones behind it. Returns enum fill_claim or -ENOMEM. */
int fill_claim(struct mapping *mapping, uint64_t index, unsigned nr, struct fill **ret_fill);

/* Wait for somebody's load and drop the ticket. Returns the error of the page at `index`, else 0: look
 * again. */
int fill_wait(struct fill *fill, uint64_t index);

/* Drop somebody's ticket without waiting. */
void fill_put(struct fill *fill);

/*
 * Load up to STORE_BATCH claims side by side and put the pages into the cache, charged to the handle's
 * memcg; consumes the tickets. On success *ret_folio is the folio at fills[0]->index, with a reference.
 * Of the first claim at least that page is loaded; the others are dropped where memory or the store
 * fails. -errno of get_folios or of the store; -ERANGE: the store ends before the page.
 */
int fill_run(struct umm_object *obj, struct fill **fills, unsigned nr, struct folio **ret_folio);

#endif
