/*
 * The protocol of the packages session, lock and guard in Promela, for SPIN (https://spinroot.com). What it is checked
 * for stands in properties.pml.
 *
 * By hand, in this folder; any other set of switches works in the same way:
 *
 *	spin -DNO_DATA -DWILD=1 -a lock.pml && cc -w -O2 -DSAFETY -o pan pan.c && ./pan -m2000000
 *
 * and to read how things go wrong without the guard (the shortest run there is):
 *
 *	spin -DNO_GUARD -DFAULTS=1 -DSTORY -a lock.pml && cc -w -DSAFETY -DBFS -o pan pan.c && ./pan -E
 *	spin -DNO_GUARD -DFAULTS=1 -DSTORY -T -t lock.pml
 *
 * What stands for what
 *
 *	store.pml    etcd, for the keys of one lock: transactions, revisions, leases
 *	session.pml  one session and what its program does: lock.Mutex.Lock and TryLock (claim.go, wait.go, mutex.go),
 *	             Held (held.go, unlock.go), and one guarded read and write while it holds (guard.Sealer, guard.Check)
 *	sweeper.pml  internal/lease/sweeper.go and moveEpoch of epoch.go
 *	world.pml    the end of leases, the network and the guarded storage
 *
 * Every step of a process is one atomic block; between two steps everybody else may do anything. A request that waits
 * for its reply is a step at the server, in which the reply is made, and one at the client, in which it is used.
 *
 * Time. There is no clock. A session is trusted (Lease.Err returns nil) until its local deadline, which may pass at any
 * moment; after that, and not before, the server may end the lease, at any moment or late. A process that is paused is
 * one that takes no step, so every process may be paused for as long as one likes wherever it is, in particular
 * between its last look at the clock and its write. A watch and the re-reading beside it are one thing: a waiter sees
 * at some time that the key ahead has gone.
 *
 * Number. Sessions begin and end, and acquire, release and give up, without bound. That the states are finite all the
 * same is due to renumber in store.pml. Bounded are: the sessions that live at once (SESSIONS), the names of keys that
 * a session uses in the queue (two: one acquisition at a time, and the last one's name that is still being swept), the
 * requests of one session that are late at once (one put of a lock's key, one of the epoch key, one guarded write), and
 * the faults, see below.
 *
 * Faults: a put that is answered late, never, or not in time, and lands any time later, or never; the same for a put of
 * the epoch key; a release that is not confirmed, whether it was made or not; a caller that gives up; a deadline that passes
 * (the renewals failed, the process was paused, or the session was closed).
 *
 * What the model does not show: that the code does what is written here; more sessions than three at once; several
 * acquisitions at once within one session, so its local queue (lock/queues.go) is nothing but the registry of names
 * and nonces; keys that were deleted or written from outside, and so monitor.go; etcd going back in time; errors that
 * etcd answers with, such as a lack of space; Limit; how a guard makes check and write one atomic step, which is each guard's own
 * matter; a process that runs on after its deadline without looking at the clock is in it, and refused by the guard,
 * but not how soon Held.Context ends. A late delete is left out, as it names the revision of a key that is never there
 * again. Reads and deletes that fail are tried again, which is a step that comes later.
 *
 * Switches
 *
 *	SESSIONS=n   2 or 3, 2 unless told
 *	WILD=n       faults hit the first n sessions only, without bound; all unless told
 *	FAULTS=n     faults hit any session, n in all
 *	CALM         of the faults only deadlines and callers that give up
 *	TRY          acquisitions by TryLock, too
 *	NO_DATA      the lock alone, without guarded writes
 *	SERVED       with the property of that name, which needs FAULTS
 *	STORY        print what happens; the true revisions, so the states are not finite
 *
 *	NO_GUARD, NO_SEAL, NO_EPOCH, REWRITE    without one part of the protocol, or with a key that is written twice
 *	LEAVE, LATE_DEADLINE, NO_RAISE          with a mistake: see session.pml and world.pml
 *	ONLY=p                                  see properties.pml
 */

#ifndef SESSIONS
#define SESSIONS 2
#endif

#ifndef WILD
#define WILD SESSIONS
#endif
#ifdef FAULTS
byte faults = FAULTS;
#define MAY(s) (faults > 0)
#define FAULT faults--
#else
#define MAY(s) (s < WILD)
#define FAULT skip
#endif
#ifdef CALM
#define LOSE(s) false
#else
#define LOSE(s) MAY(s) /* a message of s gets lost or late */
#endif

#ifdef STORY
#define tell(text, a, b) printf(text, a, b)
#else
#define tell(text, a, b) skip
#endif

#include "properties.pml"
#include "store.pml"
#include "session.pml"
#include "sweeper.pml"
#include "world.pml"
#include "monitor.pml"

init {
	byte s;
	atomic {
		for (s : 0 .. SESSIONS - 1) {
			leased[s] = true; trusted[s] = true; seen[s] = true; aheadKey[s] = NONE;
			run Session(s); run Sweeper(s); run Lease(s); run World(s)
		}
		s = 0;
		run Monitor()
	}
}
