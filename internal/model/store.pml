/*
 * etcd, and what is written in the store's revisions.
 *
 * Keys 2s and 2s+1 are the names <lease>-0 and <lease>-1 of session s in the lock's queue.
 */
#define KEYS (2 * SESSIONS)
#define NONE 255
#define first(s) (2 * (s))
#define second(s) (2 * (s) + 1)
#define session(i) ((i) / 2)

/* All revisions that anybody knows are in one array, for renumber. 0 is none. */
#define REVS KEYS
#define AHEADS (KEYS + SESSIONS)
#define SAWS (KEYS + 2 * SESSIONS)
#define SENTS (KEYS + 3 * SESSIONS)
#define MARKS (KEYS + 4 * SESSIONS)
#ifdef REWRITE
#define BORNS (MARKS + 3)
#define ALL (MARKS + 3 + KEYS)
#define born(i) number[BORNS + (i)]
#else
#define ALL (MARKS + 3)
#define born(i) number[i] /* the key is written once */
#endif
byte number[ALL];
byte head;                         /* the revision of the store */
#define mod(i) number[i]           /* the key's mod revision, 0 while it does not exist; born: its create revision */
#define rev(s) number[REVS + (s)]  /* claim.rev: the acquisition's key, and so its token */
#define ahead(s) number[AHEADS + (s)] /* claim.ahead: of the key aheadKey[s] */
#define saw(s) number[SAWS + (s)]  /* Suspect.Rev: what the sweeper found */
#define sent(s) number[SENTS + (s)] /* the token of a guarded write that is under way */
#define mark number[MARKS]         /* of the guarded resource */
#define top number[MARKS + 1]      /* the highest token of a write that was accepted */
#define last number[MARKS + 2]     /* the token of the last holder */

bool leased[SESSIONS]; /* the server has the session's lease */

/* Whether the nonce in a key is that of the session's acquisition that lives. There is one at a time, so all others
are the same: nobody wants them any more. When the acquisition ends, so do all copies of its nonce. */
bool owned[KEYS];

/* The epoch key's revision is only ever compared with its present one, so for each copy of it a bit will do: whether
it is the present one. The bits fall when the key is written. */
bool seen[SESSIONS]; /* epoch.seen */
bool fits[SESSIONS]; /* the condition of the put that waits for its reply */

/* Requests whose sender has given up waiting. */
bool late[SESSIONS], lateSecond[SESSIONS], lateOwned[SESSIONS], lateTry[SESSIONS], lateFits[SESSIONS];
bool lateMove[SESSIONS];

byte i_, j_, best_;
bool ok_, gap_;

/*
 * Revisions are compared only, so gaps between them can be closed. The three of MARKS are compared with others, not
 * with each other, so of those that have no other one between them all but one number can go; and where there is no
 * other one below, they can be 0. The states become finite, and behave as before.
 */
inline renumber() {
#ifndef STORY
	d_step {
		i_ = 1; gap_ = true;
		do
		:: i_ > head -> break
		:: else ->
			j_ = 0;
			do
			:: j_ == (gap_ -> MARKS : ALL) || number[j_] == i_ -> break
			:: else -> j_++
			od;
			if
			:: j_ < (gap_ -> MARKS : ALL) -> gap_ = j_ >= MARKS; i_++
			:: else ->
				j_ = 0;
				do
				:: j_ == ALL -> break
				:: j_ < ALL && number[j_] >= i_ -> number[j_]--; j_++
				:: else -> j_++
				od;
				head--
			fi
		od;
		i_ = 0; j_ = 0; gap_ = false
	}
#else
	skip
#endif
}

inline storePut(i, mine) {
	head++;
	mod(i) = head;
	born(i) = head;
	owned[i] = mine
}

inline storeDelete(i) {
	mod(i) = 0;
	born(i) = 0;
	owned[i] = false
}

/* Lease.Delete */
inline deleteIf(i, r) {
	if
	:: mod(i) == r -> storeDelete(i)
	:: else
	fi
}

/* The transaction of claim.put: enqueue's, or seize's with try. ok_ tells whether it put. */
inline applyPut(s, i, mine, try, fit) {
	d_step {
		ok_ = mod(i) == 0;
		if
		:: try ->
			i_ = 0;
			do
			:: i_ == KEYS -> break
			:: i_ < KEYS && mod(i_) != 0 -> ok_ = false; break
			:: else -> i_++
			od;
			i_ = 0
		:: else
		fi;
#ifdef NO_EPOCH
		ok_ = ok_ && leased[s];
#else
		ok_ = ok_ && leased[s] && fit;
#endif
		if
		:: ok_ -> storePut(i, mine)
		:: else
		fi
	}
}

/* A put of the epoch key. */
inline applyMove(s) {
	seen[s] = false;
	lateFits[s] = false;
	fits[s] = false
}

/* youngestTwo up to the key i: the next older one. */
inline readAhead(s, i) {
	d_step {
		aheadKey[s] = NONE; ahead(s) = 0;
		i_ = 0; best_ = 0;
		do
		:: i_ == KEYS -> break
		:: i_ < KEYS && born(i_) > best_ && born(i_) < born(i) ->
			best_ = born(i_); aheadKey[s] = i_; ahead(s) = mod(i_); i_++
		:: else -> i_++
		od;
		i_ = 0; best_ = 0
	}
}

/* What seize reads in its other branch. */
inline readOldest(s) {
	d_step {
		aheadKey[s] = NONE; ahead(s) = 0;
		i_ = 0; best_ = 255;
		do
		:: i_ == KEYS -> break
		:: i_ < KEYS && born(i_) != 0 && born(i_) < best_ ->
			best_ = born(i_); aheadKey[s] = i_; ahead(s) = mod(i_); i_++
		:: else -> i_++
		od;
		i_ = 0; best_ = 0
	}
}
