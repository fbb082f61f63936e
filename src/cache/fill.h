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

#define FILL_MAX_PAGES 256

struct fill {
	_Atomic uint32_t done; /* futex word: 0 in flight, 1 over */
	_Atomic uint32_t refs;
	int error; /* the store's, of the page at `index`; valid once done */
	uint64_t index;
	unsigned nr; /* pages claimed: [index, index + nr) */
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

/*
 * Load what was claimed and put it into the cache, charged to the handle's memcg; consumes the ticket.
 * On success *ret_folio is the folio at fill->index, with a reference. If not all can be had, the first
 * page alone. -errno of get_folios or of the store; -ERANGE: the store ends before the page.
 */
int fill_run(struct umm_object *obj, struct fill *fill, struct folio **ret_folio);

#endif
