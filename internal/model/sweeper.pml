/*
 * Lease.sweep. What is to be done for one key is one entry here, while the code has one for each call of Sweep.
 */

/* Suspect.Done, and on to the next of the batch. */
inline settled(s, i) {
	if
	:: batch[i] & FREES -> taken[i] = false
	:: else
	fi;
	batch[i] = 0;
	if
	:: batch[second(s)] -> i = second(s)
	:: else -> i = 0; moved = false
	fi
}

proctype Sweeper(byte s) {
	byte i;
	bool moved;
end:
	atomic { suspect[first(s)] || suspect[second(s)] -> /* sweeper.next */
		batch[first(s)] = suspect[first(s)]; suspect[first(s)] = 0;
		batch[second(s)] = suspect[second(s)]; suspect[second(s)] = 0;
		i = (batch[first(s)] -> first(s) : second(s)) };
one: /* sweepOne */
	if
	:: atomic { !trusted[s] -> batch[first(s)] = 0; batch[second(s)] = 0; i = 0; moved = false; goto end }
#ifndef NO_EPOCH
	:: atomic { trusted[s] && (batch[i] & LATE) && !moved && leased[s] -> tell("session %d: the sweeper moves the epoch\n", s, 0);
		applyMove(s); seen[s] = true; moved = true }
	:: atomic { trusted[s] && (batch[i] & LATE) && !moved && leased[s] && LOSE(s) -> FAULT;
		tell("session %d: the sweeper moves the epoch, the reply is lost\n", s, 0); applyMove(s); goto one }
	:: atomic { trusted[s] && (batch[i] & LATE) && !moved && leased[s] && !lateMove[s] && LOSE(s) -> FAULT; lateMove[s] = true; goto one }
	:: atomic { trusted[s] && (!(batch[i] & LATE) || moved) -> skip }
#else
	:: trusted[s] -> skip
#endif
	fi;
again: /* removeSuspect: Find */
	if
	:: atomic { mod(i) == 0 -> tell("session %d: the sweeper finds no key %d\n", s, i); settled(s, i);
		if
		:: i -> goto one
		:: else -> goto end
		fi }
	:: atomic { mod(i) != 0 -> tell("session %d: the sweeper finds the key %d\n", s, i); saw(s) = mod(i); sawOwned[s] = owned[i] }
	fi;
	atomic { /* Suspect.Wanted; Delete */
		if
		:: !sawOwned[s] && mod(i) != saw(s) -> saw(s) = 0; renumber(); goto again
		:: !sawOwned[s] && mod(i) == saw(s) -> REACHED(swept); tell("session %d: the sweeper deletes revision %d\n", s, mod(i)); storeDelete(i)
		:: sawOwned[s] -> REACHED(spared); tell("session %d: the sweeper leaves it, since its acquisition lives\n", s, 0)
		fi;
		saw(s) = 0; sawOwned[s] = false; renumber(); settled(s, i);
		if
		:: i -> goto one
		:: else -> goto end
		fi }
}
