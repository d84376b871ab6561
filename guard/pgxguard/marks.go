package pgxguard

import (
	"context"
	"fmt"
	"iter"

	"github.com/jackc/pgx/v5"

	"github.com/fencedlock/fencedlock/guard"
)

// Mark is what the table of marks knows of a resource.
type Mark struct {
	Resource string
	Token    guard.Token // the highest token that was accepted
	Checks   int64       // how often one was accepted
}

// marksPage is how many marks are read at a time.
const marksPage = 500

// Marks iterates over all resources that were ever marked, in the order of the bytes of their names. It ends after the
// first error, which comes with the zero Mark.
//
//	for m, err := range g.Marks(ctx) {
//		if err != nil {
//			return err
//		}
//		fmt.Println(m.Resource, m.Token)
//	}
//
// It reads what is committed, some hundred marks at a time, each time from a connection of the pool that is given back
// before the loop's body runs. So the loop may take its time, be left early and use the database; what is marked
// meanwhile is seen or not. A mark may be higher by the time it is looked at. ctx governs the reading.
func (g *Guard) Marks(ctx context.Context) iter.Seq2[Mark, error] {
	return func(yield func(Mark, error) bool) {
		last := ""
		for {
			var page []Mark
			err := g.retry(ctx, func() (err error) {
				rows, _ := g.pool.Query(ctx, g.stmts.Marks, g.single, last, marksPage) // rows have its error
				page, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Mark])
				return err
			})
			if err != nil {
				yield(Mark{}, g.explain(ctx, "marks", err))
				return
			}
			for _, m := range page {
				if m.Token <= 0 {
					yield(Mark{}, fmt.Errorf("pgxguard: marks: the table says %d for %q, which no mark can be", int64(m.Token), m.Resource))
					return
				}
				if !yield(m, nil) {
					return
				}
				last = m.Resource
			}
			if len(page) < marksPage {
				return
			}
		}
	}
}
