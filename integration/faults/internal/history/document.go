package history

import "slices"

const (
	// Accounts is how many accounts a resource has.
	Accounts = 4
	// Opening is what is on each at the beginning; their sum never changes.
	Opening = 100
	// longest is how long a list gets before a new one is begun, so that documents stay small however long a run is.
	longest = 50
)

// Doc is what a resource holds: a list, to which each write appends its own name, and accounts, between which it moves
// money. The list is written as a whole, as its writer has read it and with the new name; the accounts are changed by an amount
// where the storage can do that. So the list shows what was overwritten, and the accounts what was done twice.
type Doc struct {
	Gen      int           `json:"gen"` // how many lists there were before
	List     []string      `json:"list"`
	Accounts [Accounts]int `json:"accounts"`
}

// NewDoc is what a resource holds at first.
func NewDoc() Doc {
	d := Doc{List: []string{}}
	for i := range d.Accounts {
		d.Accounts[i] = Opening
	}
	return d
}

// Change is what one write does to a Doc, beside its entry in the list.
type Change struct {
	From   int `json:"from"`
	To     int `json:"to"`
	Amount int `json:"amount"`
}

// Apply returns the Doc after a write that has read d. When the list is full, it begins a new one, and dropped is the old.
func (d Doc) Apply(op string, c Change) (next Doc, dropped []string) {
	next = d
	if len(d.List) >= longest {
		next.Gen, next.List, dropped = d.Gen+1, []string{op}, d.List
	} else {
		next.List = append(slices.Clone(d.List), op)
	}
	next.Accounts = c.Move(d.Accounts)
	return next, dropped
}

// Move returns the accounts after the change.
func (c Change) Move(accounts [Accounts]int) [Accounts]int {
	accounts[c.From] -= c.Amount
	accounts[c.To] += c.Amount
	return accounts
}

// Base is the short form of the Doc that was read.
type Base struct {
	Gen      int           `json:"gen"`
	Len      int           `json:"len"`
	Last     string        `json:"last"` // the list's last entry, and that of the write that the Doc comes from
	Accounts [Accounts]int `json:"accounts"`
}

// Base returns the short form.
func (d Doc) Base() *Base {
	b := &Base{Gen: d.Gen, Len: len(d.List), Accounts: d.Accounts}
	if len(d.List) > 0 {
		b.Last = d.List[len(d.List)-1]
	}
	return b
}

// Sum is the money on all accounts.
func (b *Base) Sum() (sum int) {
	for _, a := range b.Accounts {
		sum += a
	}
	return sum
}
