package check

import "slices"

// happened: a history in which nobody had a lock shows nothing, and so does one of a resource.
func (r *run) happened() (found []Violation) {
	if len(r.names) == 0 {
		found = append(found, violation(Happened, "all", "nothing did"))
	}
	for _, name := range r.names {
		if len(r.held(name)) == 0 {
			found = append(found, violation(Happened, name, "nobody had the lock"))
		}
	}
	return found
}

// named adds a resource, which may be one that nobody has asked for.
func (r *run) named(name string) {
	if i, ok := slices.BinarySearch(r.names, name); !ok {
		r.names = slices.Insert(r.names, i, name)
	}
}
