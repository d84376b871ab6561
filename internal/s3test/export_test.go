//go:build unix

package s3test

import "testing"

// Hide makes this process believe that versitygw is not installed.
func Hide(t *testing.T) {
	shared.once.Do(func() { shared.err = errNotInstalled })
	if shared.s != nil {
		t.Fatal("the shared server runs already")
	}
}
