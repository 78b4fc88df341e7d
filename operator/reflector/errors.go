package reflector

// Failed is the argument of Config.Failed.
type Failed struct {
	// Verb is the failed request, by the name of its permission: "list" or "watch".
	Verb string
	Err  error
}

func (f *Failed) Error() string { return f.Verb + ": " + f.Err.Error() }

// Unwrap returns the cause.
func (f *Failed) Unwrap() error { return f.Err }
