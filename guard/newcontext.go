package guard

import "context"

type contextKey struct{}

type contextValue struct {
	resource string
	tok      Token
}

// NewContext returns a context that carries a resource's name and the holder's token, so that what is called under a
// lock can hand them to a guard. The context of a held lock carries its own. Neither is checked: guards do that.
func NewContext(ctx context.Context, resource string, tok Token) context.Context {
	return context.WithValue(ctx, contextKey{}, contextValue{resource, tok})
}

// FromContext returns what the innermost [NewContext] put into ctx; ok tells whether there was one.
func FromContext(ctx context.Context) (resource string, tok Token, ok bool) {
	v, ok := ctx.Value(contextKey{}).(contextValue)
	return v.resource, v.tok, ok
}
