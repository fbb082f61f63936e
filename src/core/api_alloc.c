/* SPDX-License-Identifier: MIT */
/* Plain memory: contiguous pages charged to a memcg, on no list. */
#include <string.h>

#include "core/core.h"

int umm_alloc(umm_memcg_t *cg, unsigned order, uint32_t flags, umm_folio_t **ret_folio)
{
	struct folio_request req = {
		.order = order,
		.type = MIGRATE_UNMOVABLE,
		.nr = 1,
		.nowait = flags & UMM_NOWAIT,
		.memcg = cg,
	};
	struct folio *folio;
	int err;

	if (!cg || !ret_folio || order > UMM_MAX_ORDER || (flags & ~(uint32_t)UMM_NOWAIT))
		return -EINVAL;
	if (threads_enter(&cg->mm->threads))
		return -EAGAIN;
	if (memcg_is_dying(cg))
		return -ESTALE;
	err = cg->mm->up->get_folios(cg->mm, &req, &folio);
	if (err)
		return err;
	/* What its last owner left there is nobody else's business. */
	memset(folio_address(folio), 0, PAGE_SIZE << order);
	folio_set(folio, PG_kernel);
	folio_commit_charge(folio, cg, MEMCG_KERNEL);
	*ret_folio = folio;
	return 0;
}

void umm_free(umm_folio_t *folio)
{
	int err;

	if (!folio)
		return;
	VM_BUG_ON(!folio_test(folio, PG_kernel)); /* pinned folios go by umm_unpin */
	err = threads_enter(&folio->pgdat->mm->threads);
	VM_BUG_ON(err);
	folio_put(folio);
}
