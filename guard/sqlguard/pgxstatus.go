package sqlguard

import (
	"database/sql"
	"reflect"
)

// pgxStatus returns what pgx's driver for database/sql knows of its connection: 'I' outside of a transaction, 'T' inside,
// 'E' inside one that has failed (PostgreSQL documentation, "Message Formats", ReadyForQuery); 0 if it is another driver.
// It is (*stdlib.Conn).Conn().PgConn().TxStatus(), called by name: that spares those who do not use pgx the driver.
func pgxStatus(conn *sql.Conn) (status byte) {
	_ = conn.Raw(func(c any) error {
		if pgxConn, ok := call(reflect.ValueOf(c).MethodByName("Conn")); ok {
			if pgConn, ok := call(pgxConn.MethodByName("PgConn")); ok {
				if s, ok := call(pgConn.MethodByName("TxStatus")); ok && s.Kind() == reflect.Uint8 {
					status = byte(s.Uint())
				}
			}
		}
		return nil
	})
	return status
}

// call calls a method without arguments and with one result, if it is that.
func call(method reflect.Value) (reflect.Value, bool) {
	if !method.IsValid() || method.Type().NumIn() != 0 || method.Type().NumOut() != 1 {
		return reflect.Value{}, false
	}
	result := method.Call(nil)[0]
	if result.Kind() == reflect.Pointer && result.IsNil() {
		return reflect.Value{}, false
	}
	return result, true
}
