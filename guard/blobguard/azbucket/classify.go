package azbucket

import (
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"

	"github.com/fencedlock/fencedlock/guard/blobguard"
)

// classify tells what an error of Put Blob, or of Delete Blob, says about the write: that the condition did not hold, that nothing was written,
// or, for what is left as it is, nothing. The codes are those of
// https://learn.microsoft.com/rest/api/storageservices/blob-service-error-codes.
func classify(err error, complete bool, failed error) error {
	// A create where there is a blob is 409. Other codes with 409 and 412 are not for the version: a lease, a policy.
	if bloberror.HasCode(err, bloberror.ConditionNotMet, bloberror.TargetConditionNotMet, bloberror.BlobAlreadyExists, bloberror.BlobNotFound) {
		return fmt.Errorf("%w: %w", blobguard.ErrConflict, err)
	}
	var answer *azcore.ResponseError
	if errors.As(err, &answer) {
		s := answer.StatusCode
		if s >= 400 && s < 500 && s != http.StatusRequestTimeout && s != http.StatusTooManyRequests {
			return fmt.Errorf("%w: %w", blobguard.ErrRefused, err)
		}
		return err // a store, or a proxy, that lost patience or does not know either
	}
	var dial *net.OpError
	switch {
	case errors.As(err, &dial) && dial.Op == "dial":
		return fmt.Errorf("%w: the request was not sent: %w", blobguard.ErrRefused, err)
	case complete: // whatever a later pass, of a policy that sends again, came to
		return err
	case failed != nil:
		return fmt.Errorf("%w: the body cannot be read: %w", blobguard.ErrRefused, err)
	}
	// A server that refuses a large body early hangs up, and its answer gets lost.
	return fmt.Errorf("%w: the connection ended before all was sent: %w", blobguard.ErrConflict, err)
}
