package sqlmark

import "strings"

// The triggers ask whether the row of the mark was written by the transaction itself, so they trust no setting of the
// session, and a program that knows nothing of guards is refused. There is
//   - one for each statement, on the table and all that inherits from it, partitions among them;
//   - one for TRUNCATE, on the same;
//   - one for each row, on a partitioned table: PostgreSQL clones it to the partitions, also to those that are attached
//     later, so it sees what is written straight to one of them;
//   - one for each row, on any other table, in replication alone, since the worker of a subscription fires no triggers of
//     statements; always, on a table that has a parent or a parent's parent outside of what is protected, since a statement
//     that names that one fires no triggers of statements here.
//
// They fire always; ordinary ones do not where session_replication_role is replica. Their function reads the marks with
// the rights of its owner, under a search path that nobody can bend. Of the two columns with the transaction's number, xmin
// is false for a check inside a savepoint, and txid does not wrap around.

// Refused is the SQLSTATE of the triggers' refusal. Classes that begin with U are free for such as us.
const Refused = "UF001"

const protectWhat = `SELECT set_config('fencedlock.table', $1, true), set_config('fencedlock.resource', $2, true)`

// protectHead finds the table, the marks, and the triggers' function.
const protectHead = `DO $fencedlock$
DECLARE
	target regclass := to_regclass(current_setting('fencedlock.table'));
	wanted text := current_setting('fencedlock.resource');
	marks regclass := to_regclass('$MARKS');
	triggers CONSTANT text[] := ARRAY['fencedlock_protect', 'fencedlock_protect_truncate', 'fencedlock_protect_rows'];
	stored text; -- the name of the table of marks, in full and quoted
	fn text; -- the name of the function, likewise
	body text;
	owner oid;
	tree oid[];
	exposed oid[]; -- those in the tree that are written through a parent outside of it
	r record;
BEGIN
	PERFORM $LOCK;
	IF target IS NULL THEN
		RAISE EXCEPTION 'fencedlock: there is no table %; name its schema if that is not in the search path', current_setting('fencedlock.table');
	ELSIF marks IS NULL THEN
		RAISE EXCEPTION 'fencedlock: the table of marks is missing' USING ERRCODE = 'undefined_table';
	END IF;
	SELECT format('%I.%I', n.nspname, c.relname), format('%I.%I', n.nspname, c.relname || '_protect')
		INTO stored, fn FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = marks;
	WITH RECURSIVE down(rel) AS (SELECT target::oid UNION SELECT i.inhrelid FROM pg_inherits i JOIN down ON i.inhparent = down.rel)
		SELECT array_agg(rel) INTO tree FROM down;
	WITH RECURSIVE down(rel) AS (SELECT inhrelid FROM pg_inherits WHERE inhrelid = ANY (tree) AND inhparent <> ALL (tree)
			UNION SELECT i.inhrelid FROM pg_inherits i JOIN down ON i.inhparent = down.rel)
		SELECT coalesce(array_agg(rel), '{}') INTO exposed FROM down;
`

const protectBody = `
	IF target = marks THEN
		RAISE EXCEPTION 'fencedlock: % is the table of marks itself', target;
	ELSIF EXISTS (SELECT FROM pg_class m JOIN pg_class o ON o.relnamespace = m.relnamespace AND o.relname = m.relname || '_once'
			WHERE m.oid = marks AND o.oid = target) THEN
		RAISE EXCEPTION 'fencedlock: % is the table of operations, which all resources share', target;
	ELSIF (SELECT relkind FROM pg_class WHERE oid = target) NOT IN ('r', 'p') THEN
		RAISE EXCEPTION 'fencedlock: % is no table; only ordinary and partitioned ones can be protected', target;
	ELSIF NOT has_table_privilege(marks, 'SELECT') THEN
		RAISE EXCEPTION 'fencedlock: % may not read %, as the triggers will in its name', current_user, marks USING ERRCODE = 'insufficient_privilege';
	END IF;

	body := format($body$
BEGIN
	IF NOT EXISTS (SELECT FROM %s AS m WHERE m.resource = TG_ARGV[0]
			AND m.xmin = pg_current_xact_id_if_assigned()::xid AND m.txid = pg_current_xact_id_if_assigned()) THEN
		RAISE EXCEPTION 'fencedlock: %% on %%.%% is refused: this transaction has not passed Check for the resource "%%"', TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME, TG_ARGV[0]
			USING ERRCODE = '$REFUSED', HINT = 'Call Check of sqlguard or pgxguard first in the transaction and in no savepoint, or write inside Do.';
	END IF;
	IF TG_OP = 'DELETE' THEN
		RETURN OLD;
	END IF;
	RETURN NEW;
END
$body$, stored);
	-- Whoever owns the function can replace it at any time.
	SELECT p.proowner INTO owner FROM pg_proc p JOIN pg_roles o ON o.oid = p.proowner WHERE p.oid = to_regprocedure(fn || '()')
		AND o.rolname <> current_user AND o.oid <> (SELECT relowner FROM pg_class WHERE oid = marks) AND NOT o.rolsuper;
	IF FOUND THEN
		RAISE EXCEPTION 'fencedlock: the function % belongs to %, who could change what it does; give it to the owner of %, or drop it',
			fn, pg_get_userbyid(owner), marks USING ERRCODE = 'insufficient_privilege';
	END IF;
	IF NOT EXISTS (SELECT FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang WHERE p.oid = to_regprocedure(fn || '()') AND p.prosrc = body
			AND l.lanname = 'plpgsql' AND p.prosecdef AND p.provolatile = 'v' AND p.proconfig = ARRAY['search_path=pg_catalog, pg_temp']) THEN
		EXECUTE format('CREATE OR REPLACE FUNCTION %s() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS %L', fn, body);
	END IF;

	SELECT t.tgrelid::regclass AS rel, t.tgfoid::regproc AS fn,
			CASE t.tgnargs WHEN 1 THEN convert_from(btrim(t.tgargs, decode('00', 'hex')), getdatabaseencoding()) END AS resource
		INTO r FROM pg_trigger t WHERE t.tgrelid = ANY (tree) AND t.tgname = ANY (triggers)
		AND (t.tgfoid <> to_regprocedure(fn || '()') OR t.tgargs <> convert_to(wanted, getdatabaseencoding()) || decode('00', 'hex'));
	IF FOUND THEN
		RAISE EXCEPTION 'fencedlock: % is protected already, by the function % for the resource "%"; call Unprotect first', r.rel, r.fn, r.resource;
	END IF;

	-- A partition that was protected by itself gets its trigger for rows from its parent now.
	FOR r IN
		SELECT t.tgrelid::regclass AS rel, t.tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
		WHERE t.tgrelid = ANY (tree) AND t.tgrelid <> target AND t.tgname = triggers[3] AND t.tgparentid = 0 AND c.relispartition
	LOOP
		EXECUTE format('DROP TRIGGER %I ON %s', r.tgname, r.rel);
	END LOOP;
	-- What is in place is left alone, so that calling this at every start takes no lock. The numbers are pg_trigger's:
	-- 1 for each row, 2 before, 4 insert, 8 delete, 16 update, 32 truncate.
	FOR r IN
		SELECT rel::regclass AS rel, kind.* FROM unnest(tree) rel CROSS JOIN (VALUES
			(triggers[1], 30, 'INSERT OR UPDATE OR DELETE', 'STATEMENT'),
			(triggers[2], 34, 'TRUNCATE', 'STATEMENT'),
			(triggers[3], 31, 'INSERT OR UPDATE OR DELETE', 'ROW')
		) kind(tgname, tgtype, events, each)
		WHERE (kind.each = 'STATEMENT' OR rel = target OR NOT (SELECT relispartition FROM pg_class WHERE oid = rel))
			AND NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = rel AND t.tgname = kind.tgname AND t.tgtype = kind.tgtype)
	LOOP
		EXECUTE format('CREATE TRIGGER %I BEFORE %s ON %s FOR EACH %s EXECUTE FUNCTION %s(%L)', r.tgname, r.events, r.rel, r.each, fn, wanted);
	END LOOP;
	FOR r IN
		SELECT t.tgrelid::regclass AS rel, t.tgname, kind.enabled, CASE kind.enabled WHEN 'A' THEN 'ALWAYS' ELSE 'REPLICA' END AS mode
		FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid CROSS JOIN LATERAL (
			SELECT CASE WHEN t.tgname = triggers[3] AND t.tgparentid = 0 AND c.relkind <> 'p' AND c.oid <> ALL (exposed) THEN 'R' ELSE 'A' END AS enabled) kind
		WHERE t.tgrelid = ANY (tree) AND t.tgname = ANY (triggers) AND t.tgenabled NOT IN ('A', kind.enabled)
	LOOP
		EXECUTE format('ALTER TABLE %s ENABLE %s TRIGGER %I', r.rel, r.mode, r.tgname);
	END LOOP;
END
$fencedlock$`

const unprotectBody = `
	SELECT t.tgrelid INTO r FROM pg_trigger t WHERE t.tgrelid = target AND t.tgname = ANY (triggers) AND t.tgparentid <> 0;
	IF FOUND THEN
		RAISE EXCEPTION 'fencedlock: % is a partition of a table that is protected; call Unprotect for that one', target;
	END IF;
	FOR r IN SELECT t.tgrelid::regclass AS rel, t.tgname FROM pg_trigger t
		WHERE t.tgrelid = ANY (tree) AND t.tgname = ANY (triggers) AND t.tgparentid = 0 AND t.tgfoid = to_regprocedure(fn || '()')
	LOOP
		EXECUTE format('DROP TRIGGER %I ON %s', r.tgname, r.rel);
	END LOOP;
END
$fencedlock$`

func protect(t Table) string { return protectBlock(t, protectBody) }

func unprotect(t Table) string { return protectBlock(t, unprotectBody) }

func protectBlock(t Table, body string) string {
	// A name holds letters, digits, underscores and its quotes only, so it fits between single quotes.
	return strings.NewReplacer("$MARKS", string(t), "$LOCK", migrationLock, "$REFUSED", Refused).Replace(protectHead + body)
}
