package guard

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// IdempotencyKey returns the key for one operation on one resource at a third party that takes such keys, for example
// in an Idempotency-Key header. Somebody else's API cannot check tokens, so no lock protects it; but when every holder
// sends the same key for the same operation, the third party carries it out once.
//
// The key depends on nothing but the two texts: every holder, process and release gives the same. Different pairs give
// different keys, also where the texts run together alike ("a", "bc" and "ab", "c"). The operation names the thing to
// be done and not the attempt, such as "charge order 4711"; choose it so that it is never used for another thing.
//
// It is a UUID of version 8 (RFC 9562, section 5.8) made of the SHA-256 of both texts with their lengths, 36 characters
// that any such API takes. "Different" rests on its 122 bits: 2^61 keys are needed before two are likely to meet.
func IdempotencyKey(resource, operation string) string {
	h := sha256.New()
	h.Write([]byte("fencedlock idempotency key v1\x00"))
	for _, s := range []string{resource, operation} {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(s)))
		h.Write(n[:])
		h.Write([]byte(s))
	}
	u := h.Sum(nil)[:16]
	u[6] = u[6]&0x0f | 0x80 // version 8
	u[8] = u[8]&0x3f | 0x80 // variant of RFC 9562
	s := hex.EncodeToString(u)
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}
