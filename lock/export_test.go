package lock

// LocalWaiters returns how many goroutines of the session have the turn in the queue of m or wait for it.
func LocalWaiters(m *Mutex) int {
	qs := queuesOf(m.lease)
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := qs.byPrefix[m.prefix]
	if q == nil {
		return 0
	}
	n := q.line.Len()
	if q.taken {
		n++
	}
	return n
}

// Entered returns how many goroutines and keys need the queue of h.
func Entered(h *Held) int {
	q := h.claim.queue
	q.all.mu.Lock()
	defer q.all.mu.Unlock()
	return q.users
}

// CheckKeyNow starts what watches the key of h and otherwise begins a while after the acquisition.
func CheckKeyNow(h *Held) { h.claim.watchOwnKey() }
