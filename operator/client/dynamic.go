package client

import "kelson.dev/internal/tree"

// parseObject parses a JSON object like the decoder of apimachinery. Unusual input goes to that
// decoder, so that its error texts appear.
func parseObject(data []byte, share *sharing) (map[string]any, error) {
	var with tree.Sharing
	if share != nil {
		with = share
	}
	object, err := tree.Parse(data, with)
	if err != nil {
		err = unmarshal(data, &object)
	}
	return object, err
}
