package sqlmark

import (
	"strings"
	"testing"
)

// A table's name goes into statements, so nothing in it may end the quotes.
func FuzzParseTable(f *testing.F) {
	for _, s := range []string{"", "marks", "app.marks", "a.b.c", ".", "a.", `a"b`, `a"; DROP TABLE a --`, "temp.marks", "TEMP.marks", "pg_temp_3.marks",
		"é", "1a", "a\x00", strings.Repeat("a", 48), strings.Repeat("a", 49), strings.Repeat("a", 63) + ".m"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		table, err := ParseTable(name)
		if err != nil {
			if table != "" {
				t.Errorf("%q gives %s and %v", name, table, err)
			}
			return
		}
		if name == "" {
			name = DefaultTable
		}
		if back := strings.ReplaceAll(string(table), `"`, ""); back != name {
			t.Errorf("%q became %s", name, table)
		}
		parts := strings.Split(string(table), ".")
		for _, p := range parts {
			if len(p) < 3 || len(p) > 65 || p[0] != '"' || p[len(p)-1] != '"' || strings.Trim(p[1:len(p)-1],
				"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") != "" {
				t.Errorf("%q became %s", name, table)
			}
		}
		if len(parts) > 2 || table.Once() == table || !strings.HasSuffix(string(table.Once()), `_once"`) {
			t.Errorf("%q became %s and %s", name, table, table.Once())
		}
	})
}
