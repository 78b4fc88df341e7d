package openapi

import "errors"

// ErrNoDocument means that a group version has no document.
var ErrNoDocument = errors.New("no such document")
