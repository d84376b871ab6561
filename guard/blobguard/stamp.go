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
}

// nonce tells an operation from all others. It is the same in each of its requests.
type nonce [16]byte

func newNonce() nonce {
	var n nonce
	rand.Read(n[:]) // never fails
	return n
}

func (n nonce) String() string { return hex.EncodeToString(n[:]) }

// The text form is "fencedlock 1 <token> <codec> <content|deleted> <nonce> <nonce of the content>": printable, without quotes
// or backslashes, so that it fits a comment, a JSON string and a header. 1 is its version.
const (
	stampName    = "fencedlock "
	stampVersion = "1"
)

// stampLike finds what may be a stamp, of any version, also in a place or form that no codec makes.
var stampLike = regexp.MustCompile(stampName + `[0-9]+ [0-9]`)

// stampText finds a stamp of this version at the beginning.
var stampText = regexp.MustCompile("^" + stampName + stampVersion + ` [0-9]+ [a-z]+ [a-z]+ [0-9a-f]+ [0-9a-f]+`)

const stampLikeMax = 32 // bytes of a text that stampLike finds, versions of some digits included

func (s stamp) String() string {
	state := "content"
	if s.deleted {
		state = "deleted"
	}
	return stampName + strings.Join([]string{stampVersion, s.token.String(), s.codec, state, s.nonce.String(), s.content.String()}, " ")
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
	if len(f) != 6 {
		return fail("it does not have six fields")
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
	for i, n := range []*nonce{&s.nonce, &s.content} {
		if b, err := hex.DecodeString(f[4+i]); err != nil || len(b) != len(n) {
			return fail("no nonce")
		} else {
			copy(n[:], b)
		}
	}
	if s.String() != text { // upper case
		return fail("not the form that it is written in")
	}
	return s, nil
}

// errDamaged is inside the error of a stamp that is there and cannot be read.
var errDamaged = errors.New("the stamp is damaged")
