package client

import "kelson.dev/operator/tree"

// parseObject reads a JSON object as the decoder of apimachinery does, and leaves to that what is unusual: people know its errors.
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
