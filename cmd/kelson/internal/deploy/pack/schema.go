package pack

import "encoding/json"

// valuesSchema encodes the JSON schema with which Helm validates values that have the given
// properties.
func valuesSchema(properties map[string]any) ([]byte, error) {
	schema := object(properties)
	schema["$schema"] = "http://json-schema.org/draft-07/schema#"
	data, err := json.MarshalIndent(schema, "", "  ")
	return append(data, '\n'), err
}

// object returns the schema of an object that has no other properties.
func object(properties map[string]any) map[string]any {
	return map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
}

// kind returns the schema of all values of a JSON type.
func kind(jsonType string) map[string]any { return map[string]any{"type": jsonType} }
