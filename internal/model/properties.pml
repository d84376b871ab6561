/*
 * What must never happen. Each has a flag, which is raised where it happens, so that the assertion that fails has its
 * name. With -DONLY=name the others are passed over.
 */
bool lowerAfterHigher; /* a guarded write was accepted after one with a higher token */
bool lostUpdate;       /* a write was accepted, and what its holder had read was no longer what was there */
bool fencedOut;        /* the guard refused the rightful holder: key at the head, deadline ahead */
bool tokenFell;        /* a rightful holder got a token that is not higher than the last one's */
bool keyless;          /* Held.Err returns nil, and the key is not at the head of the queue or not as it was put */
bool twoHolders;       /* Held.Err returns nil in two sessions at once */
bool orphan;           /* a key of a living session that no acquisition owns and that no sweeper is after */

#ifdef ONLY
#define VIOLATED(what) what = true; assert(!ONLY)
#else
#define VIOLATED(what) what = true; assert(!what)
#endif

/*
 * Each acquisition by Lock ends: with the lock, the end of the session, or that of the caller's context. All sessions are the same,
 * so one stands for all. Faults must end for that, so it needs FAULTS.
 */
#ifdef SERVED
ltl served { [] (wants[0] -> <> !wants[0]) }
#endif

/*
 * What must be able to happen, or the above would say nothing. pan lists the statements that no run reaches; the test
 * looks for these.
 *
 *	handedOver    a waiter got the lock because the key ahead had gone
 *	succeeded     a session holds the lock while something of the holder before is still under way
 *	staleHolder   a session holds the lock as far as it knows while another one does so rightfully
 *	expiredUnder  the lease of a holder ended before it knew
 *	lateLanded    a late put wrote the key of an acquisition that is over
 *	lateRefused   a late put was refused by nothing but the epoch key
 *	foundOwn      an acquisition found the key that one of its own puts had written whose reply was lost
 *	putRefused    a put was refused because the epoch key had moved
 *	swept         the sweeper deleted a key that nobody wanted
 *	spared        the sweeper came to a key whose acquisition lives
 *	leftoverPut   an acquisition found a leftover under its key's name
 *	leftoverWait  an acquisition found a leftover of its session ahead
 *	secondName    an acquisition used the second name
 *	refused       the guard refused a write
 */
#ifndef STORY
#define REACHED(what) printf(#what)
#else
#define REACHED(what) skip
#endif

#if SESSIONS == 2
#define any(p) (p(0) || p(1))
#define anyKey(p) (p(0) || p(1) || p(2) || p(3))
#define anyOlder(r) (older(0, r) || older(1, r) || older(2, r) || older(3, r))
#define twoOf(p) (p(0) && p(1))
#elif SESSIONS == 3
#define any(p) (p(0) || p(1) || p(2))
#define anyKey(p) (p(0) || p(1) || p(2) || p(3) || p(4) || p(5))
#define anyOlder(r) (older(0, r) || older(1, r) || older(2, r) || older(3, r) || older(4, r) || older(5, r))
#define twoOf(p) (p(0) && p(1) || p(0) && p(2) || p(1) && p(2))
#endif
#define older(i, r) (born(i) != 0 && born(i) < r)
#define holds(s) (holding[s] && trusted[s])
#define believes(s) (holding[s] && !trusted[s])
#define hasNoKey(s) (holds(s) && (mod(own[s]) != rev(s) || anyOlder(born(own[s]))))
#define nobodys(i) (mod(i) != 0 && !owned[i] && !suspect[i] && !batch[i] && trusted[session(i)])
