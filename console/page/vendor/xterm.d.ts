// The types of the bundled file that the page needs.
export const Terminal: any;
