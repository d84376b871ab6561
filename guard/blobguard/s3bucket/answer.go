package s3bucket

import (
	"errors"
	"fmt"

	"github.com/aws/smithy-go"
)

// answer is a server's error in a few words: the SDK's own text says the code last.
type answer struct {
	err  error
	text string
}

func (a *answer) Error() string { return a.text }

func (a *answer) Unwrap() error { return a.err }

// brief shortens the text of a server's error, and leaves others as they are.
func brief(err error) error {
	var e smithy.APIError
	if err == nil || !errors.As(err, &e) || status(err) == 0 {
		return err
	}
	text := fmt.Sprintf("%s: %s (HTTP %d", e.ErrorCode(), e.ErrorMessage(), status(err))
	var r interface{ ServiceRequestID() string }
	if errors.As(err, &r) && r.ServiceRequestID() != "" {
		text += ", request " + r.ServiceRequestID()
	}
	return &answer{err, text + ")"}
}
