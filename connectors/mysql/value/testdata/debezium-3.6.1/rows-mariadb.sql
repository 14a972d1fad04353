INSERT INTO own (id, jl, ej, s7, d8, u16, mr) VALUES ($ID+1, '{"a":  1}', '日本①', 'åäö', 'é', '日😀', 'é');
INSERT INTO own (id) VALUES ($ID+2);
