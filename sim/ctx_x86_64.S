/* SPDX-License-Identifier: MIT */
/*
 * void sim_ctx_switch(void **save_sp, void *load_sp)
 *
 * Pushes what a callee must preserve, swaps stack pointers, pops the other fiber's. The floating-point
 * control words are not saved: nothing that runs on fibers changes them.
 */
	.text
	.globl	sim_ctx_switch
	.hidden	sim_ctx_switch
	.type	sim_ctx_switch, @function
sim_ctx_switch:
	pushq	%rbp
	pushq	%rbx
	pushq	%r12
	pushq	%r13
	pushq	%r14
	pushq	%r15
	movq	%rsp, (%rdi)
	movq	%rsi, %rsp
	popq	%r15
	popq	%r14
	popq	%r13
	popq	%r12
	popq	%rbx
	popq	%rbp
	ret
	.size	sim_ctx_switch, . - sim_ctx_switch
	.section .note.GNU-stack, "", @progbits
