/*
 * One session after the other, and what its program does with the lock and the guarded resource. Labels are places
 * where it waits for something, or where it may be paused.
 */
bool trusted[SESSIONS];  /* Lease.Err() == nil: the local deadline is ahead */
bool taken[KEYS];        /* queue.keys: this name is, or may be, in etcd */
byte own[SESSIONS];      /* claim.key */
bool latePut[SESSIONS];  /* claim.latePut */
byte aheadKey[SESSIONS]; /* claim.ahead, NONE: nil */
bool wants[SESSIONS];    /* in Lock */
bool holding[SESSIONS];  /* between Lock and Unlock */
byte suspect[KEYS];      /* what sweeper.queue has of this key */
byte batch[KEYS];        /* what the running sweepBatch has of it */
#define SUSPECT 1
#define LATE 2  /* Suspect.LatePut */
#define FREES 4 /* Suspect.Done frees the name: claim.gone */
bool sawOwned[SESSIONS]; /* the nonce that the sweeper found is that of the acquisition that lives */
byte base[SESSIONS];     /* what was read under the lock: FRESH, or STALE when somebody else has written since */
#define FRESH 1
#define STALE 2

/* claim.live, as far as the sweeper is concerned. */
inline live(s) {
	if
	:: latePut[s] -> suspect[own[s]] = suspect[own[s]] | SUSPECT | LATE
	:: else
	fi
}

/* queue.forget, and the end of what the acquisition knew. */
inline forget(s) {
	d_step {
		owned[first(s)] = false; owned[second(s)] = false; lateOwned[s] = false; sawOwned[s] = false;
		rev(s) = 0; ahead(s) = 0; aheadKey[s] = NONE; own[s] = 0; fits[s] = false; latePut[s] = false;
		wants[s] = false; try = false
	};
	renumber()
}

/* claim.leave */
inline leave(s) {
	taken[own[s]] = false;
	forget(s)
}

/* claim.abandon. The sweeper is not told the revision here: it reads first, then deletes what it found. */
inline abandon(s) {
	suspect[own[s]] = suspect[own[s]] | SUSPECT | FREES | (latePut[s] -> LATE : 0);
	forget(s)
}

/* claim.giveUp */
inline giveUp(s) {
	if
	:: rev(s) == 0 && !latePut[s] -> leave(s)
	:: else -> tell("session %d gives up; its key, if any, is left to the sweeper\n", s, 0); abandon(s)
	fi
}

proctype Session(byte s) {
	bool try;
idle:
	if
	:: atomic { trusted[s] && !(taken[first(s)] && taken[second(s)]) -> /* newClaim, queue.register */
		own[s] = (taken[first(s)] -> second(s) : first(s));
		taken[own[s]] = true;
		if
		:: own[s] == second(s) -> REACHED(secondName)
		:: else
		fi;
#ifdef TRY
		if
		:: try = true
		:: wants[s] = true
		fi;
#else
		wants[s] = true;
#endif
		tell("session %d sends a put of its key %d\n", s, own[s]);
		fits[s] = seen[s]; goto answer }
	:: atomic { !trusted[s] && !leased[s] && !suspect[first(s)] && !suspect[second(s)] && !batch[first(s)] && !batch[second(s)] ->
		/* The program opens a new session: a new lease, with keys of its own. */
		taken[first(s)] = false; taken[second(s)] = false;
		leased[s] = true; trusted[s] = true; seen[s] = true; goto idle }
	:: goto end_rest
	fi;

answer: /* claim.put; what comes back is judged by enqueue, seize and retryPut */
	if
	:: atomic { applyPut(s, own[s], true, try, fits[s]);
		if
		:: ok_ -> ok_ = false; fits[s] = false; rev(s) = mod(own[s]); readAhead(s, own[s]); live(s);
			tell("session %d: the key is there, revision %d\n", s, rev(s)); goto wait
		:: !ok_ && !try -> goto refusedPut
		:: !ok_ && try -> readOldest(s);
			if
			:: aheadKey[s] == NONE || aheadKey[s] == own[s] -> ahead(s) = 0; aheadKey[s] = NONE; goto refusedPut
			:: aheadKey[s] != NONE && aheadKey[s] != own[s] && session(aheadKey[s]) == s -> fits[s] = false; goto remove
			:: aheadKey[s] != NONE && session(aheadKey[s]) != s -> giveUp(s); goto idle /* LockedError */
			fi
		fi }
	:: atomic { LOSE(s) -> FAULT; applyPut(s, own[s], true, try, fits[s]); ok_ = false; fits[s] = false; latePut[s] = true;
		tell("session %d: the put was made, its reply is lost; the key has revision %d\n", s, mod(own[s])); goto retry }
	:: atomic { LOSE(s) && leased[s] && !late[s] -> FAULT; tell("session %d: no reply, the put of its key %d is under way\n", s, own[s]);
		d_step {
			late[s] = true; lateSecond[s] = (own[s] == second(s)); lateOwned[s] = true; lateTry[s] = try; lateFits[s] = fits[s];
			fits[s] = false; latePut[s] = true
		};
		goto retry }
	fi;

retry: /* Lease.Retry */
	if
	:: atomic { tell("session %d sends its put again\n", s, 0); fits[s] = seen[s]; goto answer }
	:: atomic { MAY(s) -> FAULT; giveUp(s); goto idle }
	:: atomic { !trusted[s] -> giveUp(s); goto idle }
	fi;

refusedPut: /* the rest of retryPut: Find, then LearnEpoch, look or remove */
	if
	:: atomic { mod(own[s]) == 0 && leased[s] -> REACHED(putRefused); tell("session %d learns its epoch, sends its put again\n", s, 0);
		seen[s] = true; fits[s] = true; goto answer }
	:: atomic { mod(own[s]) == 0 && !leased[s] -> giveUp(s); goto idle }
	:: atomic { mod(own[s]) != 0 && owned[own[s]] -> fits[s] = false; rev(s) = mod(own[s]); readAhead(s, own[s]); live(s);
		REACHED(foundOwn); tell("session %d finds its own nonce, revision %d\n", s, rev(s)); goto wait }
	:: atomic { mod(own[s]) != 0 && !owned[own[s]] -> REACHED(leftoverPut); fits[s] = false;
		ahead(s) = mod(own[s]); aheadKey[s] = own[s]; goto remove }
	fi;

remove: /* claim.remove, then the put again or look */
	atomic { tell("session %d deletes a leftover of revision %d\n", s, ahead(s));
		deleteIf(aheadKey[s], ahead(s)); ahead(s) = 0; aheadKey[s] = NONE;
		if
		:: rev(s) == 0 -> renumber(); fits[s] = seen[s]; goto answer
		:: else
		fi };
look: /* claim.look */
	atomic {
		if
		:: mod(own[s]) != rev(s) -> giveUp(s); goto idle /* errGone */
		:: else -> readAhead(s, own[s]); renumber()
		fi };

wait: /* claim.wait and waitFor; a session that is over ends it, and so does the caller's context */
	if
	:: atomic { aheadKey[s] == NONE -> goto hold }
	:: atomic { aheadKey[s] != NONE && session(aheadKey[s]) == s -> REACHED(leftoverWait); goto remove }
	:: atomic { aheadKey[s] != NONE && session(aheadKey[s]) != s && mod(aheadKey[s]) != ahead(s) ->
		REACHED(handedOver); tell("session %d sees that revision %d is no longer ahead\n", s, ahead(s)); goto look }
	:: atomic { MAY(s) -> FAULT; giveUp(s); goto idle }
	:: atomic { !trusted[s] -> giveUp(s); goto idle }
	fi;

hold: /* Mutex.hold */
	atomic {
		if
		:: !trusted[s] -> giveUp(s); goto idle
		:: else
		fi;
		tell("session %d HOLDS the lock, token %d\n", s, rev(s));
		wants[s] = false;
		holding[s] = true;
		if
		:: any(believes) -> REACHED(staleHolder)
		:: last != 0 && !any(believes) -> REACHED(succeeded)
		:: else
		fi;
		if
		:: rev(s) <= last -> VIOLATED(tokenFell)
		:: else
		fi;
		last = rev(s); renumber()
	};
#ifdef REWRITE
	if
	:: atomic { mod(own[s]) == rev(s) -> head++; mod(own[s]) = head; rev(s) = head; last = head;
		tell("session %d writes its key again; its token is now %d\n", s, head) }
	:: skip
	fi;
#endif
#ifndef NO_DATA
	if
	:: sent(s) != 0 -> goto unlock /* its last write is still under way; see above under Number */
	:: else
	fi;
#if !defined(NO_GUARD) && !defined(NO_SEAL)
	atomic { /* Sealer.Seal */
		if
		:: rev(s) < mark -> tell("session %d: its seal is refused, the mark is %d\n", s, mark);
			if
			:: trusted[s] -> VIOLATED(fencedOut)
			:: else
			fi;
			goto unlock
		:: else -> tell("session %d seals, mark %d\n", s, rev(s)); mark = rev(s); renumber()
		fi };
#endif
	atomic { tell("session %d reads the resource\n", s, 0); base[s] = FRESH };
	atomic { /* Held.Err, then the write */
		if
		:: !trusted[s] -> base[s] = 0
		:: else -> tell("session %d sends a write with token %d\n", s, rev(s)); sent(s) = rev(s)
		fi };
#endif

unlock: /* Held.release: looks at the clock, then deletes; the reply of the write may not have come */
	atomic { holding[s] = false;
		if
		:: !trusted[s] -> tell("session %d sees that it is over\n", s, 0); abandon(s); goto idle
		:: else
		fi };
	if
	:: atomic {
		if
		:: mod(own[s]) == rev(s) -> storeDelete(own[s]); tell("session %d released the lock\n", s, 0);
			if
			:: !latePut[s] -> leave(s); goto idle
			:: else -> goto released
			fi
		:: else -> abandon(s); goto idle /* ErrLost */
		fi }
	:: atomic { LOSE(s) -> FAULT; deleteIf(own[s], rev(s)); abandon(s); goto idle }
	:: atomic { LOSE(s) -> FAULT; tell("session %d does not know whether it released the lock\n", s, 0); abandon(s); goto idle }
	fi;
released: /* A put may be late, and the sweeper may have looked when this acquisition still lived: it looks again. */
	atomic {
#ifndef LEAVE
		suspect[own[s]] = suspect[own[s]] | SUSPECT | LATE;
#else
		tell("session %d forgets its acquisition\n", s, 0);
#endif
		leave(s); goto idle };

end_rest:
	false
}
