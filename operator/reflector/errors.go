package reflector

// Failed is what Config.Failed is told.
type Failed struct {
	// Verb is what failed, by the name of the permission it needs: "list" or "watch".
	Verb string
	Err  error
}

func (f *Failed) Error() string { return f.Verb + ": " + f.Err.Error() }

// Unwrap is the failure itself.
func (f *Failed) Unwrap() error { return f.Err }
