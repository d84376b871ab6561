package azbucket

import (
	"errors"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
)

// answer is a server's error in a few words: the SDK's own text is the whole answer, over many lines.
type answer struct {
	err  error
	text string
}

func (a *answer) Error() string { return a.text }

func (a *answer) Unwrap() error { return a.err }

// brief shortens the text of a server's error, and leaves others as they are.
func brief(err error) error {
	var e *azcore.ResponseError
	if !errors.As(err, &e) {
		return err
	}
	text := fmt.Sprintf("%s (HTTP %d", e.ErrorCode, e.StatusCode)
	if e.ErrorCode == "" {
		text = fmt.Sprintf("the answer has no code (HTTP %d", e.StatusCode)
	}
	if r := e.RawResponse; r != nil && r.Header.Get("X-Ms-Request-Id") != "" {
		text += ", request " + r.Header.Get("X-Ms-Request-Id")
	}
	return &answer{err, text + ")"}
}
