package explored

import "errors"

// ErrNoFailure is returned for a file that has no failure.
var ErrNoFailure = errors.New("read failure")
