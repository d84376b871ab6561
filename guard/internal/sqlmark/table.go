// Package sqlmark holds what the guards over SQL share: the table of marks, its statements for PostgreSQL, what
// PostgreSQL's error codes prove, and the pauses between tries.
//
// The table has one row for each resource: its name, the highest token seen, a counter of accepted checks, so that every
// check changes the row, and on PostgreSQL the number of the transaction that did. The row of the empty name, which no resource can have, holds the version. A second table
// beside it, of the same name and "_once", has one row for each operation that was recorded as done.
package sqlmark

import (
	"fmt"
	"regexp"
	"strings"
)

// DefaultTable is the table's name unless the user chose another.
const DefaultTable = "fencedlock_marks"

// Version is that of the tables. Releases that know different versions may work on one table at once: a version that an
// older release must not touch renames a column, so that the older one's statements fail. A table more needs no new
// version, since Migrate looks for each.
const Version = 1

// 63 bytes is where PostgreSQL cuts a name in silence.
var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)

// longest leaves room in the 63 bytes for the endings of what is named after the table.
const longest = 48

// Table is the name of a table, quoted for a statement.
type Table string

// ParseTable reads the name of the table of marks, "table" or "schema.table"; "" is [DefaultTable]. The parts are ASCII
// letters, digits and underscores, the table at most 48 of them and the schema 63, and do not begin with a digit, so
// nothing in them can leave the quotes.
func ParseTable(name string) (Table, error) {
	if name == "" {
		name = DefaultTable
	}
	if s := strings.ToLower(name); strings.HasPrefix(s, "temp.") || strings.HasPrefix(s, "pg_temp") {
		return "", fmt.Errorf("%.80q would be a temporary table, one for each connection; marks must be the same for all", name)
	}
	if len(name)-strings.LastIndexByte(name, '.')-1 > longest {
		return "", fmt.Errorf("%.80q is too long for the table of marks; at most %d characters are allowed, since others are named after it", name, longest)
	}
	return ParseUserTable(name)
}

// ParseUserTable reads the name of a table to protect, like [ParseTable] with up to 63 characters.
func ParseUserTable(name string) (Table, error) {
	parts := strings.Split(name, ".")
	for _, p := range parts {
		if len(parts) > 2 || !identifier.MatchString(p) {
			return "", fmt.Errorf("%.80q is not a table's name; want table or schema.table, of 1 to 63 ASCII letters, digits and underscores each", name)
		}
	}
	return Table(`"` + strings.Join(parts, `"."`) + `"`), nil
}

// Once is the table of operations that belongs to a table of marks.
func (t Table) Once() Table { return t[:len(t)-1] + `_once"` }

// Version is the statement that reads the version, and fails if one of the tables is missing.
func (t Table) Version() string {
	return fmt.Sprintf(`SELECT token FROM %s WHERE resource = '' AND NOT EXISTS (SELECT 1 FROM %s WHERE resource = '')`, string(t), string(t.Once()))
}

// CheckVersion returns an error if a table of version v is not for this release.
func (t Table) CheckVersion(v int64) error {
	if v != Version {
		return fmt.Errorf("table %s has version %d, and this release knows version %d; use a release that knows it", string(t), v, Version)
	}
	return nil
}
