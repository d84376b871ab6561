package guard_test

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/fencedlock/fencedlock/guard"
)

// wideTokens are neighbours that a float64 cannot tell apart, and the ends of the range.
var wideTokens = []guard.Token{1, 1<<53 - 1, 1 << 53, 1<<53 + 1, 2658674479976361868, math.MaxInt64 - 1, math.MaxInt64}

func TestTokenParsesItsOwnFormOnly(t *testing.T) {
	for _, tok := range wideTokens {
		if got, err := guard.ParseToken(tok.String()); got != tok || err != nil {
			t.Errorf("ParseToken(%q) = %d, %v", tok.String(), got, err)
		}
	}
	for _, s := range []string{
		"", "0", "-0", "-1", "+1", "01", " 1", "1 ", "1\n", "1.0", "1e3", "0x10", "1_000", "NaN", "null", "٣", "1\x00",
		"9223372036854775808", "18446744073709551616", "-9223372036854775808", strings.Repeat("9", 1<<16),
	} {
		got, err := guard.ParseToken(s)
		if got != 0 || !errors.Is(err, guard.ErrNoToken) {
			t.Errorf("ParseToken(%.20q) = %d, %v; want ErrNoToken", s, got, err)
		}
		if err != nil && len(err.Error()) > 200 {
			t.Errorf("ParseToken(%.20q): error of %d bytes repeats its input", s, len(err.Error()))
		}
		kept := guard.Token(7)
		if err := kept.UnmarshalText([]byte(s)); !errors.Is(err, guard.ErrNoToken) || kept != 7 {
			t.Errorf("UnmarshalText(%.20q) left %d, %v; want 7 and ErrNoToken", s, kept, err)
		}
	}
}

// Large integers are rounded on their way through JSON:
// https://github.com/etcd-io/etcd/issues/14294, https://github.com/grpc-ecosystem/grpc-gateway/issues/438
func TestTokenSurvivesJSONDecodersThatUseFloats(t *testing.T) {
	type message struct {
		Token guard.Token `json:"token"`
	}
	seen := make(map[string]guard.Token)
	for _, tok := range wideTokens {
		b, err := json.Marshal(message{tok})
		if err != nil {
			t.Fatal(err)
		}
		var direct message
		if err := json.Unmarshal(b, &direct); err != nil || direct.Token != tok {
			t.Errorf("%s decoded to %d, %v", b, direct.Token, err)
		}
		// A program that knows nothing of tokens decodes numbers to float64, and encodes again.
		var loose map[string]any
		if err := json.Unmarshal(b, &loose); err != nil {
			t.Fatal(err)
		}
		again, err := json.Marshal(loose)
		if err != nil {
			t.Fatal(err)
		}
		var back message
		if err := json.Unmarshal(again, &back); err != nil || back.Token != tok {
			t.Errorf("token %d came back as %d, %v", tok, back.Token, err)
		}
		if other, dup := seen[string(again)]; dup {
			t.Errorf("tokens %d and %d became equal: %s", other, tok, again)
		}
		seen[string(again)] = tok
	}
}

func TestTokenRefusesJSONThatIsNotAString(t *testing.T) {
	for _, s := range []string{"7", "7.0", "7e0", "9007199254740993", "null", "true", "[]", "{}", `"7.0"`, `"0"`, `""`, `" 7"`, `"\ud800"`} {
		tok := guard.Token(5)
		if err := json.Unmarshal([]byte(s), &tok); !errors.Is(err, guard.ErrNoToken) || tok != 5 {
			t.Errorf("JSON %s left %d, %v; want 5 and ErrNoToken", s, tok, err)
		}
	}
	var tok guard.Token
	if err := json.Unmarshal([]byte(`"\u0037"`), &tok); err != nil || tok != 7 {
		t.Errorf("escaped JSON string gave %d, %v; want 7", tok, err)
	}
	m := map[guard.Token]string{1<<53 + 1: "a", 1 << 53: "b"}
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var back map[guard.Token]string
	if err := json.Unmarshal(b, &back); err != nil || back[1<<53+1] != "a" || back[1<<53] != "b" {
		t.Errorf("as a map's keys: %s gave %v, %v", b, back, err)
	}
}

func TestTokenThatIsNoneIsNotSent(t *testing.T) {
	for _, tok := range []guard.Token{0, -1, math.MinInt64} {
		if b, err := tok.MarshalText(); !errors.Is(err, guard.ErrNoToken) {
			t.Errorf("MarshalText of %d = %q, %v; want ErrNoToken", int64(tok), b, err)
		}
		if got := tok.String(); got != strconv.FormatInt(int64(tok), 10) {
			t.Errorf("String of %d = %q", int64(tok), got)
		}
	}
	b, err := json.Marshal(struct {
		Token guard.Token `json:"token,omitzero"`
	}{})
	if err != nil || string(b) != "{}" {
		t.Errorf("omitzero gave %s, %v", b, err)
	}
}

func FuzzParseToken(f *testing.F) {
	for _, s := range []string{"1", "0", "-1", "9223372036854775807", "9223372036854775808", "01", "1e3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		tok, err := guard.ParseToken(s)
		if err == nil && (tok <= 0 || tok.String() != s) {
			t.Errorf("ParseToken(%q) = %d, which is written %q", s, int64(tok), tok.String())
		}
		if err != nil && (tok != 0 || !errors.Is(err, guard.ErrNoToken)) {
			t.Errorf("ParseToken(%q) = %d, %v", s, int64(tok), err)
		}
	})
}
