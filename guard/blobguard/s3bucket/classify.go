package s3bucket

import (
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/fencedlock/fencedlock/guard/blobguard"
)

// classify tells what an error of PutObject, or of DeleteObject, says about the write: that the condition did not hold, that nothing was
// written, or, for what is left as it is, nothing.
func classify(err error, expect blobguard.Version, whole bool, failed error) error {
	switch status(err) {
	case http.StatusPreconditionFailed, http.StatusConflict:
		if inTheWay[code(err)] {
			return fmt.Errorf("%w: on this store an object cannot have the name of another one's folder: %w", blobguard.ErrRefused, err)
		}
		// 409 is ConditionalRequestConflict: another request for the key was under way, or it was deleted meanwhile.
		return fmt.Errorf("%w: %w", blobguard.ErrConflict, err)
	case http.StatusNotFound:
		// If-Match on a key that is not there is 404 on Amazon S3; so is a bucket that is not there.
		if expect != "" && code(err) != "NoSuchBucket" {
			return fmt.Errorf("%w: %w", blobguard.ErrConflict, err)
		}
		return fmt.Errorf("%w: %w", blobguard.ErrRefused, err)
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		// 408 comes from whoever lost patience, which may be a proxy in front of a store that goes on.
		return err
	case 0: // no answer
		var dial *net.OpError
		if errors.As(err, &dial) && dial.Op == "dial" {
			return fmt.Errorf("%w: the request was not sent: %w", blobguard.ErrRefused, err)
		}
		switch {
		case whole:
			return err
		case failed != nil:
			return fmt.Errorf("%w: the body cannot be read: %w", blobguard.ErrRefused, err)
		}
		return fmt.Errorf("%w: the connection ended before all was sent: %w", blobguard.ErrConflict, err)
	}
	if s := status(err); s >= 300 && s < 500 {
		return fmt.Errorf("%w: %w", blobguard.ErrRefused, err)
	}
	return err // 5xx: a store, or a proxy, that does not know either
}

// inTheWay are the codes, none of them Amazon's, of stores that keep objects as files, for an object at "a" where there is one
// at "a/b" or the other way round. They come with 409, and waiting does not help.
//   - versitygw: https://github.com/versity/versitygw/blob/main/s3err/s3err.go
//   - SeaweedFS: https://github.com/seaweedfs/seaweedfs/blob/master/weed/s3api/s3err/s3api_errors.go
//   - MinIO: https://github.com/minio/minio/blob/master/cmd/api-errors.go
var inTheWay = map[string]bool{
	"ExistingObjectIsDirectory": true, "ObjectParentIsFile": true, "ExistingObjectIsFile": true, "XMinioObjectExistsAsDirectory": true,
}

// status is that of the server's answer, 0 without one.
func status(err error) int {
	var r *smithyhttp.ResponseError
	if errors.As(err, &r) && r.Response != nil {
		return r.HTTPStatusCode()
	}
	return 0
}

// code is S3's name of the error, "" without one.
func code(err error) string {
	var e smithy.APIError
	if errors.As(err, &e) {
		return e.ErrorCode()
	}
	return ""
}
