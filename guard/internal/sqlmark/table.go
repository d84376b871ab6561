// Package sqlmark holds what the guards over SQL share: the table of marks, its statements for PostgreSQL, what
// PostgreSQL's error codes prove, and the pauses between tries.
//
// The table has one row for each resource: its name, the highest token seen, and a counter of accepted checks, so that
// every check changes the row. The row of the empty name, which no resource can have, holds the version of the table.
package sqlmark

import (
	"fmt"
	"regexp"
	"strings"
)

// DefaultTable is the table's name unless the user chose another.
const DefaultTable = "fencedlock_marks"

// Version is that of the table. Releases that know different versions may work on one table at once: a version that an
// older release must not touch renames a column, so that the older one's statements fail.
const Version = 1

// 63 bytes is where PostgreSQL cuts a name in silence.
var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)

// Table is the name of the table, quoted for a statement.
type Table string

// ParseTable reads "table" or "schema.table"; "" is [DefaultTable]. Each part is 1 to 63 ASCII letters, digits and
// underscores and does not begin with a digit, so nothing in it can leave the quotes.
func ParseTable(name string) (Table, error) {
	if name == "" {
		name = DefaultTable
	}
	parts := strings.Split(name, ".")
	for _, p := range parts {
		if len(parts) > 2 || !identifier.MatchString(p) {
			return "", fmt.Errorf("%.80q is not a table's name; want table or schema.table, of 1 to 63 ASCII letters, digits and underscores each", name)
		}
	}
	return Table(`"` + strings.Join(parts, `"."`) + `"`), nil
}

// CheckVersion returns an error if a table of version v is not for this release.
func (t Table) CheckVersion(v int64) error {
	if v != Version {
		return fmt.Errorf("table %s has version %d, and this release knows version %d; use a release that knows it", string(t), v, Version)
	}
	return nil
}
