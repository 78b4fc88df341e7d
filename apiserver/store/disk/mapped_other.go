//go:build !linux && !darwin

package disk

// Map implements reader: files are not mapped on this system.
func (r osReader) Map() []byte { return nil }

func forget([]byte) {}
