# A timestamptz as text, its fraction written with six digits.
def micros:
  if . == null then null else
    split(".") | if length == 1 then .[0][:-1] + ".000000Z" else .[0] + "." + ((.[1][:-1] + "000000")[:6]) + "Z" end
  end;
