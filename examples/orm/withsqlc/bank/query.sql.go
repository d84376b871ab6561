package bank

import "context"

const balance = `-- name: Balance :one
SELECT balance FROM account WHERE id = ?
`

// Balance returns what is in the account.
func (q *Queries) Balance(ctx context.Context, id string) (int64, error) {
	row := q.db.QueryRowContext(ctx, balance, id)
	var balance int64
	err := row.Scan(&balance)
	return balance, err
}

const withdraw = `-- name: Withdraw :exec
UPDATE account SET balance = balance - ? WHERE id = ?
`

// WithdrawParams are the arguments of Withdraw.
type WithdrawParams struct {
	Amount int64
	ID     string
}

// Withdraw takes an amount from the account.
func (q *Queries) Withdraw(ctx context.Context, arg WithdrawParams) error {
	_, err := q.db.ExecContext(ctx, withdraw, arg.Amount, arg.ID)
	return err
}
