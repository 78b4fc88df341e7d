// Package trees parses, encodes and compares objects as JSON trees of maps, lists and scalars. It
// builds on kelson.dev/internal/tree, and returns a result only if the libraries would return the
// same.
//
//	config, ok := trees.Configuration(body)
//	if !ok {
//		err = yaml.Unmarshal(body, &config)
//	}
package trees
