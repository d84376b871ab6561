inline lateIsOver(s) {
	late[s] = false; lateSecond[s] = false; lateOwned[s] = false; lateTry[s] = false; lateFits[s] = false
}

/* The server's end of a lease: after the session's own deadline, however late. */
proctype Lease(byte s) {
end:
	do
#ifndef LATE_DEADLINE
	:: atomic { leased[s] && !trusted[s] ->
#else
	:: atomic { leased[s] && MAY(s) -> /* the session counts from when the reply came, so the server's deadline is earlier */
#endif
		if
		:: holding[s] -> REACHED(expiredUnder)
		:: else
		fi;
		tell("the server ends the lease of session %d\n", s, 0);
		d_step {
			leased[s] = false;
			storeDelete(first(s)); storeDelete(second(s));
			lateIsOver(s); lateMove[s] = false; seen[s] = false; fits[s] = false /* lease not found */
		};
		renumber() }
	od
}

/* What befalls the session s from outside. */
proctype World(byte s) {
end:
	do
	:: atomic { trusted[s] && MAY(s) -> FAULT; tell("the deadline of session %d passes\n", s, 0); trusted[s] = false }
	:: atomic { late[s] ->
		if
		:: mod(first(s) + lateSecond[s]) == 0 && !lateTry[s] && !lateFits[s] -> REACHED(lateRefused)
		:: else
		fi;
		applyPut(s, first(s) + lateSecond[s], lateOwned[s], lateTry[s], lateFits[s]);
		if
		:: ok_ && !lateOwned[s] -> ok_ = false; REACHED(lateLanded); tell("a late put of session %d lands, revision %d; its acquisition is over\n", s, head)
		:: ok_ && lateOwned[s] -> ok_ = false; tell("a late put of session %d lands, revision %d\n", s, head)
		:: !ok_ -> tell("a late put of session %d is refused\n", s, 0)
		fi;
		d_step { lateIsOver(s) } }
	:: d_step { late[s] -> lateIsOver(s) } /* it never arrives */
	:: atomic { lateMove[s] -> tell("a late put of session %d's epoch key lands\n", s, 0); d_step { lateMove[s] = false; applyMove(s) } }
	:: atomic { lateMove[s] -> lateMove[s] = false }
#ifndef NO_DATA
	/* A guarded write arrives: guard.Check, the mark and the write in one step. */
	:: atomic { sent(s) != 0 ->
		if
#ifndef NO_GUARD
		:: sent(s) < mark -> REACHED(refused); tell("the write of session %d is refused, the mark is %d\n", s, mark);
			if
			:: holding[s] && trusted[s] && rev(s) == sent(s) -> VIOLATED(fencedOut)
			:: else
			fi
#endif
		:: else -> tell("the write of session %d with token %d is ACCEPTED\n", s, sent(s));
			if
			:: sent(s) < top -> VIOLATED(lowerAfterHigher)
			:: else -> top = sent(s)
			fi;
			if
			:: base[s] == STALE -> VIOLATED(lostUpdate)
			:: else
			fi;
#if !defined(NO_GUARD) && !defined(NO_RAISE)
			mark = sent(s);
#endif
			i_ = 0;
			do
			:: i_ == SESSIONS -> break
			:: i_ < SESSIONS && i_ != s && base[i_] == FRESH -> base[i_] = STALE; i_++
			:: else -> i_++
			od;
			i_ = 0
		fi;
		sent(s) = 0; base[s] = 0; renumber() }
	:: atomic { sent(s) != 0 -> sent(s) = 0; base[s] = 0; renumber() }
#endif
	od
}
