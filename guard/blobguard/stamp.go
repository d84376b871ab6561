package blobguard

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/fencedlock/fencedlock/guard"
)

// stamp is what an object carries beside its content. It is written in the same step, so the mark is a function of the
// object's version, also where the version is made from the bytes alone: no two stamps have the same nonce.
type stamp struct {
	token   guard.Token // the mark
	codec   string      // the name of the codec that placed it
	deleted bool        // a tombstone: no content, and the mark stays
	nonce   nonce       // of the operation that wrote the object
	content nonce       // of the operation that wrote this content, or deleted it; a Seal keeps it
	before  nonce       // record.id of the last object with a lower mark
	past    past        // the objects that were there before this one
}

// nonce tells an operation from all others. It is the same in each of its requests.
type nonce [16]byte

func newNonce() nonce {
	var n nonce
	rand.Read(n[:]) // never fails
	return n
}

func (n nonce) String() string { return hex.EncodeToString(n[:]) }

// parseNonce reads what String writes and nothing else.
func parseNonce(text string) (n nonce, ok bool) {
	b, err := hex.DecodeString(text)
	ok = err == nil && len(b) == len(n)
	copy(n[:], b)
	return n, ok && n.String() == text // upper case
}

// past is the first half of record.id, in hex, of each of the last objects at a key, the latest at the end. Half of a random
// number of 16 bytes tells them apart well enough.
type past string

const (
	pastEach = len(nonce{}) // half of the hex
	pastMax  = 8 * pastEach
)

// with is p with one more at its end.
func (p past) with(id nonce) past {
	p += past(id.String()[:pastEach])
	return p[max(0, len(p)-pastMax):]
}

// has tells whether an object is in p, and so are all that took its place.
func (p past) has(id nonce) bool {
	for ; len(p) >= pastEach; p = p[pastEach:] {
		if string(p[:pastEach]) == id.String()[:pastEach] {
			return true
		}
	}
	return false
}

// The text form is "fencedlock 1 <token> <codec> <content|deleted>" and the four others in their order, in hex: printable, without
// quotes or backslashes, so that it fits a comment, a JSON string and a header. 1 is its version.
const (
	stampName    = "fencedlock "
	stampVersion = "1"
)

// stampLike finds what may be a stamp, of any version, also in a place or form that no codec makes.
var stampLike = regexp.MustCompile(stampName + `[0-9]+ [0-9]`)

// stampText finds a stamp of this version at the beginning.
var stampText = regexp.MustCompile("^" + stampName + stampVersion + ` [0-9]+ [a-z]+ [a-z]+( [0-9a-f]+){4}`)

const stampLikeMax = 32 // bytes of a text that stampLike finds, versions of some digits included

func (s stamp) String() string {
	state := "content"
	if s.deleted {
		state = "deleted"
	}
	return stampName + strings.Join([]string{stampVersion, s.token.String(), s.codec, state, s.nonce.String(), s.content.String(), s.before.String(), string(s.past)}, " ")
}

// parseStamp reads what String writes and nothing else.
func parseStamp(text string) (stamp, error) {
	fail := func(why string) (stamp, error) {
		return stamp{}, fmt.Errorf("%w: %s in %.120q", errDamaged, why, text)
	}
	rest, ok := strings.CutPrefix(text, stampName)
	if !ok {
		return fail("it does not begin with " + stampName)
	}
	f := strings.Split(rest, " ")
	if f[0] != stampVersion {
		return fail("its version is not " + stampVersion + ", so another release wrote it")
	}
	if len(f) != 8 {
		return fail("it does not have eight fields")
	}
	var s stamp
	var err error
	if s.token, err = guard.ParseToken(f[1]); err != nil {
		return fail("no token")
	}
	if s.codec = f[2]; codecNames[s.codec] == "" {
		return fail("no codec")
	}
	if f[3] != "content" && f[3] != "deleted" {
		return fail("it is neither of content nor of a deletion")
	}
	s.deleted = f[3] == "deleted"
	for i, n := range []*nonce{&s.nonce, &s.content, &s.before} {
		var ok bool
		if *n, ok = parseNonce(f[4+i]); !ok {
			return fail("no nonce")
		}
	}
	if s.past = past(f[7]); len(f[7]) == 0 || len(f[7]) > pastMax || len(f[7])%pastEach != 0 || strings.Trim(f[7], "0123456789abcdef") != "" {
		return fail("no past")
	}
	if s.String() != text {
		return fail("not the form that it is written in")
	}
	return s, nil
}

// errDamaged is inside the error of a stamp that is there and cannot be read.
var errDamaged = errors.New("the stamp is damaged")
