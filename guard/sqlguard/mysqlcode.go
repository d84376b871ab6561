package sqlguard

import "reflect"

// Numbers of MySQL and MariaDB.
const (
	mysqlRecordChanged   = 1020 // ER_CHECKREAD
	mysqlDuplicate       = 1062 // ER_DUP_ENTRY
	mysqlTableDenied     = 1142 // ER_TABLEACCESS_DENIED_ERROR
	mysqlColumnDenied    = 1143 // ER_COLUMNACCESS_DENIED_ERROR
	mysqlNoSuchTable     = 1146 // ER_NO_SUCH_TABLE
	mysqlLockWaitTimeout = 1205 // ER_LOCK_WAIT_TIMEOUT
	mysqlDeadlock        = 1213 // ER_LOCK_DEADLOCK
	mysqlNoSuchSavepoint = 1305 // ER_SP_DOES_NOT_EXIST
)

// mysqlCode returns the server's number for an error, 0 if there is none. Drivers have it in a field and not in a method:
// Number in go-sql-driver/mysql's MySQLError, Code in go-mysql-org's MyError, both beside a Message. Looking for the fields by
// their names spares every user of this package the driver, and is more exact than the text. Errors of fn's own are looked at,
// too: one that only has a code is none of these.
func mysqlCode(err error) uint16 {
	for err != nil {
		v := reflect.ValueOf(err)
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		if field(v, "Message", reflect.String).IsValid() {
			for _, name := range []string{"Number", "Code"} {
				if f := field(v, name, reflect.Uint16); f.IsValid() {
					return uint16(f.Uint())
				}
			}
		}
		switch e := err.(type) {
		case interface{ Unwrap() error }:
			err = e.Unwrap()
		case interface{ Unwrap() []error }:
			for _, err := range e.Unwrap() {
				if code := mysqlCode(err); code != 0 {
					return code
				}
			}
			return 0
		default:
			return 0
		}
	}
	return 0
}

// field returns the field of v if v is a struct that has one of that name and kind, not behind a nil pointer.
func field(v reflect.Value, name string, kind reflect.Kind) reflect.Value {
	if v.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	t, ok := v.Type().FieldByName(name)
	if !ok || t.Type.Kind() != kind {
		return reflect.Value{}
	}
	f, err := v.FieldByIndexErr(t.Index)
	if err != nil {
		return reflect.Value{}
	}
	return f
}
