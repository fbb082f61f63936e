# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Completion of umm's commands and options in bash.

_umm() {
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
	local options='--memcgs --readers --memory --memcg-max --file-size --lru-lock --nodes --io
		--verify --rounds --seed --stat --json --help'

	# readline hands `--option=value` over as three words.
	if [[ $before == = && $COMP_CWORD -ge 2 ]]; then
		before=${COMP_WORDS[COMP_CWORD - 2]}
	elif [[ $word == = ]]; then
		before=${COMP_WORDS[COMP_CWORD - 1]}
		word=
	fi
	if ((COMP_CWORD == 1)); then
		mapfile -t COMPREPLY < <(compgen -W 'readtwice help --version --help' -- "$word")
		return
	fi
	case ${COMP_WORDS[1]}:$before in
	help:*) mapfile -t COMPREPLY < <(compgen -W 'readtwice help' -- "$word") ;;
	readtwice:--lru-lock) mapfile -t COMPREPLY < <(compgen -W 'node memcg both' -- "$word") ;;
	readtwice:--io) mapfile -t COMPREPLY < <(compgen -W 'direct buffered' -- "$word") ;;
	readtwice:--memcgs | readtwice:--readers | readtwice:--memory | readtwice:--memcg-max | \
		readtwice:--file-size | readtwice:--nodes | readtwice:--rounds | readtwice:--seed)
		COMPREPLY=()
		;;
	readtwice:--json) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
	readtwice:*)
		if [[ $word == -* ]]; then
			mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
		else
			mapfile -t COMPREPLY < <(compgen -f -- "$word")
		fi
		;;
	esac
}

complete -o filenames -F _umm umm
