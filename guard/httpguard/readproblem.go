package httpguard

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"net/http"
)

// maxProblem is the size in bytes up to which a body can be a problem of ours: a name of 512 bytes takes some thousands.
const maxProblem = 64 << 10

// readProblem reads a problem of ours from a response; ok tells whether there is one. If not, the body can still be read
// from its beginning. An error means that the body broke off, so that nobody knows what it was to say.
func readProblem(resp *http.Response) (p problem, ok bool, err error) {
	mediaType, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil || mediaType != problemType || resp.Body == nil {
		return problem{}, false, nil
	}
	body := resp.Body
	read, err := io.ReadAll(io.LimitReader(body, maxProblem+1))
	resp.Body = restored{io.MultiReader(bytes.NewReader(read), body), body}
	if err != nil {
		return problem{}, false, err
	}
	if len(read) > maxProblem || json.Unmarshal(read, &p) != nil || status[p.Type] != resp.StatusCode {
		return problem{}, false, nil
	}
	return p, true, nil
}

// restored is a body of which something was read, seen from its beginning.
type restored struct {
	io.Reader
	io.Closer
}
