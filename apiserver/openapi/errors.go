package openapi

import "errors"

// ErrNoDocument says that there is no document of a group version.
var ErrNoDocument = errors.New("no such document")
