package lease

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// The wall clock may be set forwards and back by hours; no decision of a lease looks at it. The differences between two
// readings of time.Now are monotonic, and so are timers; what would look at the wall is named here.
//
// https://github.com/etcd-io/etcd/issues/12291, https://github.com/etcd-io/etcd/issues/6700
func TestNoLeaseLooksAtTheWallClock(t *testing.T) {
	wall := make(map[string]bool)
	for name := range strings.FieldsSeq(`Unix UnixMilli UnixMicro UnixNano Date Parse Format Until
		Equal Before Sub UTC Local In GoString MarshalText MarshalJSON`) {
		wall[name] = true
	}
	looked := 0
	for _, folder := range []string{".", "../../session", "../clock"} {
		files, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			looked++
			ast.Inspect(file, func(n ast.Node) bool {
				if call, ok := n.(*ast.SelectorExpr); ok && wall[call.Sel.Name] {
					t.Errorf("%s: .%s, which may look at the wall clock", fset.Position(n.Pos()), call.Sel.Name)
				}
				return true
			})
		}
	}
	if looked < 15 {
		t.Errorf("only %d files were looked at", looked)
	}
}
