package blobguard

import (
	"context"
	"errors"
	"io"
	"iter"
)

var (
	// ErrNotExist is the error of a read of what is not there: [Bucket.Get] on a key without an object, and [Guard.Get] on a
	// resource that was deleted or never written, where the error found is a [*NotExistError].
	ErrNotExist = errors.New("blobguard: does not exist")

	// ErrConflict is [Bucket.Put]'s error when the store answered that the key does not have the version that was expected:
	// another one, none, or one where there should be none. This one request was not applied. It is also the error for an
	// answer that says to try again because two requests met (S3's 409), and for a request that broke off before its end was
	// sent, which is how the refusal of a large body can look.
	ErrConflict = errors.New("blobguard: the key does not have the version that was expected")

	// ErrRefused is the error of [Bucket.Put] when it is certain that nothing was written and that it is not for the version:
	// the store answered that it will not (rights, quota, size), or the request was never sent. An error that wraps neither
	// this nor ErrConflict leaves open whether the object was written, as a lost answer or an internal error of the store does.
	// It is that of [Bucket.Delete] in the same way.
	ErrRefused = errors.New("blobguard: refused by the store")
)

// Version tells the states of one key apart, such as an ETag or a generation. It is opaque, and compared byte by byte. ""
// is the version of a key without an object.
type Version string

// Object is what [Bucket.Get] found.
type Object struct {
	// Body has the bytes that were asked for. It is never nil, and the caller closes it. An end that comes too early is an
	// error of Read other than io.EOF.
	Body io.ReadCloser

	// Version is that of the object the bytes belong to, and never "".
	Version Version

	// Size is the size of the whole object in bytes, whatever part was asked for.
	Size int64

	// Stamp is what [StampBucket.PutStamped] put beside the bytes; "" in objects without, and in buckets that have no such
	// method.
	Stamp string
}

// Bucket is what a guard needs of an object store: reads that see every write acknowledged before, and writes on
// condition of a version. s3bucket, gcsbucket and azbucket make one from your own client; buckettest is the suite that
// each of them passes, and that one of your own should.
//
// All methods are safe for concurrent use. ctx governs the whole call; for Get, reading Body included.
type Bucket interface {
	// Get reads length bytes of the object at key from offset on; a negative length means all up to the end, and 0 none,
	// which still gives the version, the size and the stamp. A negative offset means the last -offset bytes, or all if there
	// are fewer; length is negative then. A range with no byte in it gives an empty Body and no error.
	//
	// The error wraps ErrNotExist if there is no object, and only then: a missing bucket or a missing right is another one.
	// Get may try again on its own.
	Get(ctx context.Context, key string, offset, length int64) (Object, error)

	// Put makes all that body holds from its start on the content of key, in one atomic step, if the key has the version
	// expect at that moment; "" means that there is no object. It returns the new version, which is the one that Get gives
	// for it. What was beside the former content, such as a stamp, is gone.
	//
	// It sends one request, and does not try again on its own, nor lets its client: an answer to a second request says
	// nothing about the first. It reads and seeks body as it likes, does not close it, and does not touch it any more once it
	// has returned. When body cannot be read, or is shorter than Seek said, nothing is written, and the error wraps ErrRefused.
	//
	// The error wraps ErrConflict or ErrRefused for what these say; for any other the outcome is open.
	Put(ctx context.Context, key string, body io.ReadSeeker, expect Version) (Version, error)

	// Delete removes the object at key, whatever its version. That there is none is no error.
	//
	// It sends one request, and does not try again on its own, nor lets its client: a first request that comes after the answer
	// to a second one would remove what was written since. The error wraps ErrRefused if it is certain that nothing was
	// removed, nor will be, as Put's does.
	Delete(ctx context.Context, key string) error

	// List gives each key that begins with prefix once, in any order, and ends after the first error. An object that is
	// there from the beginning to the end of the listing is in it.
	List(ctx context.Context, prefix string) iter.Seq2[string, error]

	// UniqueVersions tells whether every write gets a version that its key never had before, even if it writes the same
	// bytes again. It is false for S3, where the ETag is made from the content.
	UniqueVersions() bool
}

// StampBucket is a Bucket that can keep a short text beside the bytes of an object, as metadata that is written in the same
// atomic step. [Verbatim] needs one whose versions are unique: elsewhere such a stamp can change without the version, and
// a condition on the version does not see it.
type StampBucket interface {
	Bucket

	// PutStamped is Put, with stamp as the [Object.Stamp] of later reads. A stamp is 1 to 512 bytes of printable ASCII.
	PutStamped(ctx context.Context, key string, body io.ReadSeeker, stamp string, expect Version) (Version, error)
}
